"""The registries of models, and downloads from them.

http_client  GET requests with retries (httpx2)
download     one file: resumed, checked, renamed when complete
hub          Hugging Face's registry (huggingface_hub)
firefox      Mozilla's registry
"""
