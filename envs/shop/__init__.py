"""A web shop: WebShop's pages, search, goals and reward, over its own files or over catalogues that we generate."""
