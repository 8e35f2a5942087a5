"""Names of columns that are recognised without an option, in lower case."""

from __future__ import annotations

NAMES: dict[str, tuple[str, ...]] = {
    "logits": ("logits", "logit", "logprobs", "log_probs", "logprob", "loglikelihoods"),
    "log_odds": ("log_odds", "logodds"),
    "probs": (
        "probs",
        "prob",
        "probabilities",
        "probability",
        "proba",
        "probas",
        "pred_probs",
        "y_prob",
        "y_proba",
        "softmax",
    ),
    "confidence": ("confidence", "confidences", "conf"),
    "label": ("label", "labels", "y", "y_true", "target", "targets", "true_label", "ground_truth", "truth"),
    "hit": ("hit", "hits", "correct", "is_correct"),
    "prediction": ("prediction", "predictions", "pred", "preds", "predicted", "y_pred", "predicted_label", "guess"),
}
"""Names of each role."""

RARER: dict[str, tuple[str, ...]] = {
    "logits": (),
    "log_odds": (),
    "probs": ("y_pred_proba", "y_pred_prob", "pred_proba", "pred_prob", "predicted_prob", "predicted_proba",
              "predicted_probability", "predicted_probabilities"),
    "confidence": ("stated_confidence", "verbalized_confidence", "max_prob", "max_probability", "top_prob",
                   "top1_prob"),
    "label": ("gold", "gold_label", "label_ids", "actual", "actual_label", "actual_class", "true_class", "obs",
              "observed", "y_test", "expected", "reference"),
    "hit": ("was_correct", "correctness"),
    "prediction": ("predict", "predicted_class", "pred_label", "pred_class", ".pred_class"),
}  # fmt: skip
"""Names that are recognised if the file has none of NAMES for the role."""

SPREAD = {
    "logits": ("logit", "logits", "logprob", "log_prob"),
    "probs": (
        "prob",
        "probs",
        "p",
        "proba",
        "probability",
        "probabilities",
        "pred_prob",
        "y_prob",
        "y_proba",
        "softmax",
        "pred_proba",
        "predicted_prob",
        ".pred",
    ),
}
"""Prefixes of one column per class: logit_0, logit_1, …"""

SCORES = ("logits", "log_odds", "probs", "confidence")
"""Kinds of scores, most exact first: if a file has several, the first is taken."""

SPLITS = ("test", "val", "valid", "validation", "cal", "calib", "calibration", "train", "dev", "eval", "holdout")
"""Parts of a data set that names begin or end with: probas_test, test_labels."""


def split_of(name: str) -> tuple[str, str]:
    """A name without the part of the data set, and that part; empty if there is none."""
    lower = name.lower()
    first, _, rest = lower.partition("_")
    stem, _, last = lower.rpartition("_")
    if stem and last in SPLITS:
        return stem, last
    return (rest, first) if rest and first in SPLITS else (lower, "")
