"""The command `regard bulk`: translates or embeds files of any size, each row exactly once."""
