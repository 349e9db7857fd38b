"""Modules that run in the environment of a peer. They do not import `model` or `service`.

    protocol               JSON lines between the harness and an engine
    vectors                vectors as text, for the protocol
    server                 an HTTP server around an engine, with or without the batcher
    bergamot               the native Bergamot engine
    ctranslate2            CTranslate2 with a stand-in model of the same shape
    ctranslate2_build      builds the stand-in model
    sentence_transformers  the embedding models of sentence-transformers

The modules must also run on Python 3.10, because Bergamot has no wheel for a later Python.
"""
