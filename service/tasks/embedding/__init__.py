"""The embedding of texts: check, tokenise, submit, assemble."""
