"""The screens in front of and around apps: home screen, notifications, pickers. Each is written as an app."""
