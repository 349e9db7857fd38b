"""How the next token is chosen: greedily, or by beam search. Log-probabilities in, ids out.

Rows that want no probabilities take the likeliest token without a search (`greedy_rows`).
"""

from model.engine.beam import BeamSearch
from model.engine.greedy import GreedySearch
from model.sequence import DecodingOptions

Search = GreedySearch | BeamSearch


def new_search(options: DecodingOptions, eos_id: int, max_tokens: int) -> Search:
    """The search that the options ask for."""
    kind = GreedySearch if options.beam_size == 1 else BeamSearch
    return kind(options, eos_id, max_tokens)
