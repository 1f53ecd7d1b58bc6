"""Android: a simulated phone, its apps, and the environment that plays on it or on a real device."""
