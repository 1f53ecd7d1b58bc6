"""The screen that a person sees and touches: layout, painting, fonts, the keyboard, taps and typing."""
