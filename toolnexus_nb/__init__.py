"""Look at, teach and iterate an AI persona directory in a notebook."""
from .soul import compose_soul
