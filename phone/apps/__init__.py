"""The apps of the phone: one file each, listed in `turncredit.phone.installed_apps`."""
