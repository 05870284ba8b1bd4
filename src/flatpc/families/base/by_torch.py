"""A family's density and statistics by torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flatpc.families.base.description import Description


class ByTorch(Description):
    """Density and statistics by torch."""

    def torch_log_density(self, parameters: Mapping[str, Any], x: Any) -> Any:
        """`log_density` by torch, differentiable.

        >>> import torch
        >>> import flatpc as fp
        >>> rate, x = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[0.0]]])
        >>> fp.Poisson().torch_log_density({"rate": rate}, x).tolist()
        [[[-1.0, -2.0]]]

        Without it the torch engine asks `log_density`: values are the same, and derivatives in the family's parameters or in
        `x` raise `FamilyError`.

        Parameters
        ----------
        parameters
            Name -> tensor `[n, 1, K, ...]`.
        x
            `[n, B, 1]`: values of n variables; `[n, B, 1, d]` of a family over d, with NaN at the same entries of all rows.

        Returns
        -------
        tensor
            `[n, B, K]`.
        """
        raise self.lacks("torch_log_density")

    def torch_table(self, parameters: Mapping[str, Any]) -> Any:
        """`table` by torch; without it the torch engine asks `table`.

        >>> import torch
        >>> import flatpc as fp
        >>> fp.Bernoulli().torch_table({"p": torch.tensor([[0.25]])}).tolist()
        [[[0.75, 0.25]]]

        Parameters
        ----------
        parameters
            Name -> tensor `[n, K, ...]`.

        Returns
        -------
        tensor
            `[n, K, V]`.
        """
        raise self.lacks("torch_table")

    def torch_density(self, parameters: Mapping[str, Any], x: Any) -> tuple[Any, Any]:
        """The density as `mantissa · exp(scale)` with the scale detached; here: from its logarithm.

        >>> import torch
        >>> import flatpc as fp
        >>> rate, x = torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[0.0]]])
        >>> mantissa, scale = fp.Poisson().torch_density({"rate": rate}, x)
        >>> mantissa.tolist(), scale.tolist()
        ([[[1.0, 1.0]]], [[[-1.0, -2.0]]])

        To be defined where a density has derivatives although its logarithm has none: at a probability of 0.

        Parameters
        ----------
        parameters
            Name -> tensor `[n, 1, K, ...]`.
        x
            `[n, B, 1]`: values of n variables.

        Returns
        -------
        tuple of tensors
            Mantissa and scale, `[n, B, K]`.
        """
        import torch

        log = self.torch_log_density(parameters, x)
        possible = log.detach().isfinite()
        log = torch.where(possible, log, 0.0)
        scale = log.detach()
        return torch.where(possible, (log - scale).exp(), 0.0), scale

    def torch_statistics(self, parameters: Mapping[str, Any], x: Any, flow: Any) -> dict[str, Any]:
        """`statistics` by torch; without it the torch engine asks `statistics`.

        >>> import torch
        >>> import flatpc as fp
        >>> rate, x, flow = torch.tensor([[1.0]]), torch.tensor([[2.0, 4.0]]), torch.tensor([[[1.0], [0.5]]])
        >>> fp.Poisson().torch_statistics({"rate": rate}, x, flow)["sum"].tolist()
        [[4.0]]

        Parameters
        ----------
        parameters
            Name -> tensor `[n, K, ...]`.
        x
            `[n, B]`: values of n variables.
        flow
            `[n, B, K]`: their weights.

        Returns
        -------
        dict
            Name -> tensor `[n, K, ...]`.
        """
        raise self.lacks("torch_statistics")
