"""Our own dialect: `POST /attention` and `POST /attention/steps`."""
