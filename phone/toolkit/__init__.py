"""The parts of an app: its state, tables, handlers, widgets, forms and icons."""
