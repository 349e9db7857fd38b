"""Transformers for translation, as a library: token ids in; token ids, vectors or attention out.

It knows nothing of HTTP. Text becomes ids in `tokenization`, and nothing below it sees text.

Dimension key, used in every shape comment of the package:

    B  rows of a batch            H  attention heads
    S  source positions           K  head_dim = D / H
    T  target positions, now      D  d_model
    L  target positions, cached   F  ffn_dim
    V  vocabulary                 U  vocabulary entries in a shortlist union

Files, each importing only from those above it:

    errors         the error tree
    config         ModelConfig: what a checkpoint says of itself
    embedding_config   the same of an embedding model (no torch)
    token_ids      which ids a model takes (no torch)
    quantization   exact int8 products
    device         which device and which precision
    cache          what decoding keeps for each row, preallocated
    attention      scaled dot-product attention, multi-head attention
    layers         positions, feed-forward, SSRU, encoder and decoder layer
    transformer    Encoder, Decoder, EncoderDecoder
    shortlist      which target ids a source sentence may lead to
    output         hidden states -> logits, over all ids or those of the shortlists
    inspection     which attention is asked for, resolved (no torch)
    steps          one token's attention in one head, number by number (no torch)
    recording      what is kept of a pass for one job: maps of weights, or steps
    sequence       what goes into an engine and what comes out (no torch)
    greedy_rows    the targets of rows that take the likeliest token, as arrays
    decoding       greedy choice with scores, beam search
    runtime        what an engine needs of a model on a device
    torch_runtime  the one for every model and device
    transfer       integers between host and device, without waiting
    attention_pass a pass over given translations that shows its attention, in slices
    centred        int8 products for the encoders of texts
    text_encoder   the encoder of BERT, RoBERTa, XLM-RoBERTa and MPNet
    pooling        vectors of tokens -> the vector of a text; EmbeddingModel
    embedding_pass vectors of texts, in slices
    text_attention a pass over the same that shows its attention
    encoder_pass   the same by the encoder of a translation model
    graphs         functions of tensors that never move, as CUDA graphs
    cuda_runtime   the one for GPUs
    native/        the one for int8 models on a CPU, in C++
    engine         the in-flight batch: admit, step, abort
    tokenization   text <-> ids with character offsets
    mapped_tokenization  the same where another vocabulary numbers the pieces
    text_settling  which tokens of a part of a text are those of the whole (no torch)
    text_tokenization  text -> ids of an embedding model, cut to its limit
    checkpoints/   files on disk -> configs, filled models and tokenizers
"""
