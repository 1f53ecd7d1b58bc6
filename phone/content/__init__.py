"""Content of a phone: people, chats, letters, plans and events."""
