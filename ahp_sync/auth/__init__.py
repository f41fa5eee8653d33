"""Credentials of one endpoint, resolved within the budget of the call that needs them."""
