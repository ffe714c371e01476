"""The manual, made from the parser: Markdown, a man page, shell completion. Controller side only."""
