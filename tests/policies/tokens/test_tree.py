from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from toolorchestra.policies.tokens.tree import ROOT, TokenTree

sequences = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=8)


def prefixes(texts):
    return {tuple(text[:size]) for text in texts for size in range(1, len(text) + 1)}


@given(sequences)
def test_a_path_is_its_sequence_and_what_is_shared_stands_once(texts):
    tree = TokenTree()
    leaves = [tree.extend(ROOT, text) for text in texts]
    for text, leaf in zip(texts, leaves, strict=True):
        path = tree.path(leaf)
        assert [tree.ids[slot] for slot in path] == text
        assert [tree.depths[slot] for slot in path] == list(range(len(text)))
    assert len(tree) == len(prefixes(texts))


@given(sequences, st.data())
def test_pieces_give_the_same_tree_as_the_whole(texts, data):
    tree, whole = TokenTree(), TokenTree()
    for text in texts:
        cut = data.draw(st.integers(0, len(text)))
        leaf = tree.extend(tree.extend(ROOT, text[:cut]), text[cut:])
        assert leaf == whole.extend(ROOT, text)
    assert tree.ids == whole.ids
    assert tree.parents == whole.parents


@given(sequences, st.integers(0, 7))
def test_a_slot_sees_its_ancestors_and_itself(texts, looks_after):
    tree = TokenTree()
    for number, text in enumerate(texts):
        if number == looks_after:
            tree.visible()  # looked at in between, as the sampler does while the tree grows
        tree.extend(ROOT, text)
    visible = tree.visible()
    assert visible.shape == (len(tree), len(tree))
    for slot in range(len(tree)):
        assert np.flatnonzero(visible[slot]).tolist() == tree.path(slot)
    start = len(tree) // 2
    assert (tree.visible(start) == visible[start:]).all()


def test_the_mask_grows_past_its_first_size():
    tree = TokenTree()
    tree.extend(ROOT, [1] * 10)
    tree.visible()
    leaf = tree.extend(ROOT, list(range(300)))
    assert np.flatnonzero(tree.visible()[leaf]).tolist() == tree.path(leaf)
