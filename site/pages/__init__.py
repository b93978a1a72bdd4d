"""What the site is made of: a function for each kind of page, which returns the page's text."""
