"""Search over one's own texts. bm25s is imported when an index is built."""

from toolorchestra.tools.search.corpus import Passage, chunk_text, read_folder
from toolorchestra.tools.search.index import Bm25Index, Hit, Index
from toolorchestra.tools.search.local import MAX_TOP_K, LocalSearch

__all__ = ["MAX_TOP_K", "Bm25Index", "Hit", "Index", "LocalSearch", "Passage", "chunk_text", "read_folder"]
