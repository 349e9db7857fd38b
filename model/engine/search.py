"""Selects the search of a sequence: greedy or beam. A search turns log-probabilities into ids.

Sequences that need no log-probabilities are decoded without a search, by
`model.engine.greedy_rows`.
"""

from model.engine.beam import BeamSearch
from model.engine.greedy import GreedySearch
from model.sequence import DecodingOptions

Search = GreedySearch | BeamSearch


def new_search(options: DecodingOptions, eos_id: int, max_tokens: int) -> Search:
    """Returns the search for these options."""
    kind = GreedySearch if options.beam_size == 1 else BeamSearch
    return kind(options, eos_id, max_tokens)
