from model.inspection.query import AttentionJob
from service.items.attention import AttentionItem
from service.tasks.alignment.aligner import in_parts


def test_alignments_of_many_sentences_are_submitted_in_parts() -> None:
    """A part has a limited number of weights, and at least one sentence, however long."""
    items = [AttentionItem("en-pt", AttentionJob([5] * n, [6] * 2, ())) for n in (3, 4, 1, 50, 2)]
    sizes = [[2 * len(each.job.source) for each in part] for part in in_parts(items, 14)]
    assert sizes == [[6, 8], [2], [100], [4]]
    assert not list(in_parts([], 14))
