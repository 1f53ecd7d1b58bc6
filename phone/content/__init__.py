"""What is on a phone: people, chats, letters, plans and events."""
