"""Android: tasks on a phone, their judge, and the environment that plays them on a simulated phone or a real device."""
