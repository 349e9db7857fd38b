"""Modules that run in the environment of a peer. They do not import `model` or `service`.

    protocol               JSON lines between the harness and an engine
    vectors                vectors as text, for the protocol
    bergamot               the native Bergamot engine
    fxtranslate            a Rust engine for the same models
    server                 an HTTP server around it, with or without the batcher
    ctranslate2_shape      CTranslate2 with random weights
    sentence_transformers  the embedding models of sentence-transformers
    openvino               the same models in OpenVINO
    onnxruntime            the same models in ONNX Runtime
    encoders               what these two share

The modules must also run on Python 3.10, because Bergamot has no wheel for a later Python.
"""
