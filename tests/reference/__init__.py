"""The pages that are made of the code: what makes them, and what shows the rest of the repository on the site."""
