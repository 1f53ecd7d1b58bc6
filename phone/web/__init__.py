"""The web of the simulated phone: invented sites, each with its pages, forms and what they store."""
