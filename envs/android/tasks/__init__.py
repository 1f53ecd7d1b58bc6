"""Tasks on the phone: templates, what success changes, the judge, and the expert."""
