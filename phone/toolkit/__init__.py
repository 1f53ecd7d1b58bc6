"""What an app is made of: its state, tables, handlers, widgets, forms and icons."""
