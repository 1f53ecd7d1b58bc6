"""The apps of the phone: one file each, listed in `turnwise.phone.installed_apps`."""
