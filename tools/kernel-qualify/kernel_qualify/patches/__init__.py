"""The patches themselves: their mails, whether they apply, and what compilers report of them."""
