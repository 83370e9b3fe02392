"""Packed trees: the trees of a forest as a few arrays, which are saved and read a hundred times as fast as objects."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class PackedTrees:
    """The trees of a fitted forest of scikit-learn, one after another. All have the same classes and features."""

    nodes: Array  # scikit-learn's own records of nodes, of all trees
    values: Array  # of each node: the share of each class, or the mean
    counts: Array  # nodes of each tree
    depths: Array
    n_features: int
    n_classes: Array  # of each output
    template: Any  # a tree of the forest, without its nodes


def pack(estimator: Any) -> Any:
    """Return a forest with its trees packed; what is no forest is returned as it is."""
    from sklearn.ensemble._forest import BaseForest

    if not isinstance(estimator, BaseForest):
        return estimator
    states = [tree.tree_.__getstate__() for tree in estimator.estimators_]
    packed = PackedTrees()
    packed.nodes = np.concatenate([state["nodes"] for state in states])
    packed.values = np.concatenate([state["values"] for state in states])
    packed.counts = np.array([state["node_count"] for state in states])
    packed.depths = np.array([state["max_depth"] for state in states])
    first = estimator.estimators_[0]
    packed.n_features, packed.n_classes = int(first.tree_.n_features), np.array(first.tree_.n_classes)
    packed.template = copy.copy(first)
    del packed.template.tree_
    lighter = copy.copy(estimator)
    lighter.estimators_ = packed
    return lighter


def unpack(estimator: Any) -> Any:
    """Return a forest that `pack` packed as it was."""
    packed = getattr(estimator, "estimators_", None)
    if not isinstance(packed, PackedTrees):
        return estimator
    from sklearn.tree._tree import Tree

    ends = np.cumsum(packed.counts)
    if len(packed.nodes) != len(packed.values) or not len(ends) or ends[-1] != len(packed.nodes):
        raise ValueError(f"{len(packed.nodes)} nodes with {len(packed.values)} values are not those of {ends[-1:]}")
    trees = []
    for depth, count, end in zip(packed.depths, packed.counts, ends, strict=True):
        tree = Tree(packed.n_features, packed.n_classes.astype(np.intp), len(packed.n_classes))
        here = slice(end - count, end)
        state = {"max_depth": int(depth), "node_count": int(count)}
        tree.__setstate__({**state, "nodes": packed.nodes[here].copy(), "values": packed.values[here].copy()})
        _check(packed.nodes[here], packed.n_features)
        trees.append(copy.copy(packed.template))
        trees[-1].tree_ = tree
    estimator.estimators_ = trees
    return estimator


def _check(nodes: Array, n_features: int) -> None:
    """Refuse nodes that lead out of their tree: scikit-learn follows them without a look."""
    inner = nodes["left_child"] >= 0
    places = np.arange(len(nodes))[inner]
    for side in ("left_child", "right_child"):
        children = nodes[side][inner]
        if (children <= places).any() or (children >= len(nodes)).any():
            raise ValueError("a node of a tree leads to one that is not below it")
    features = nodes["feature"][inner]
    if (features < 0).any() or (features >= n_features).any():
        raise ValueError(f"a node of a tree asks for a feature that is none of {n_features}")
