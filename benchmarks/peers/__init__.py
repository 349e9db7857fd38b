"""What runs in the environment of a peer. Nothing here imports torch, `model` or `service`.

    protocol        JSON lines between the harness and an engine
    batcher         sentences of many requests to a few worker processes
    server          one sentence a POST, naive or through the batcher
    bergamot        the native Bergamot engine
    ctranslate2     CTranslate2 on a stand-in of the same shape

Python 3.10 is enough: there is no later wheel of Bergamot.
"""
