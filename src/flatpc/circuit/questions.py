"""The questions that a circuit answers itself, each a door to the function of the same name in `flatpc.queries`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from flatpc.circuit.circuit import Circuit
    from flatpc.engine.contract import Flows
    from flatpc.queries.dropout_uncertainty import DropoutUncertainty
    from flatpc.queries.mpe import Completion


class Questions:
    """Methods of `Circuit` that ask about rows."""

    def log_prob(
        self,
        X: Any,
        *,
        missing: str = "raise",
        engine: str = "auto",
        dtype: str = "float64",
        device: Any = None,
        uncertainty: Any = None,
    ) -> Any:
        """Log-likelihood of every row; see `flatpc.queries.log_prob`.

        Parameters
        ----------
        X
            Rows: a table with a column for each variable.
        missing
            `"raise"` refuses NaN; `"marginalize"` integrates NaN entries out.
        engine, dtype, device
            Who computes, how precisely and where; as for `flatpc.queries.log_prob`.
        uncertainty
            A posterior, `fp.curvature.laplace(circuit, rows)`, for answers with standard errors.

        Returns
        -------
        array or tensor
            `[N]`: log p(x), `-inf` where the probability is zero; a tensor if X is one.

        Raises
        ------
        DataError, OptionError
            X or an option is not as it should be.
        """
        from flatpc import queries

        return queries.log_prob(
            cast("Circuit", self), X, missing=missing, engine=engine, dtype=dtype, device=device, uncertainty=uncertainty
        )

    def conditional_log_prob(
        self,
        X: Any,
        given: Any,
        *,
        missing: str = "raise",
        engine: str = "auto",
        dtype: str = "float64",
        device: Any = None,
        uncertainty: Any = None,
    ) -> Any:
        """Log p(x_rest | x_given); see `flatpc.queries.conditional_log_prob`.

        Parameters
        ----------
        X
            Rows.
        given
            What is known: a boolean mask, `[D]` or `[N, D]`, or a list of variables.
        missing, engine, dtype, device, uncertainty
            As for `log_prob`.

        Returns
        -------
        array or tensor
            `[N]`.

        Raises
        ------
        DataError, OptionError
            As for `log_prob`; and where p(x_given) is zero.
        """
        from flatpc import queries

        return queries.conditional_log_prob(
            cast("Circuit", self), X, given, missing=missing, engine=engine, dtype=dtype, device=device, uncertainty=uncertainty
        )

    def conditional_proba(
        self,
        X: Any,
        *,
        variable: int,
        missing: str = "marginalize",
        engine: str = "auto",
        dtype: str = "float64",
        device: Any = None,
        uncertainty: Any = None,
    ) -> Any:
        """The probability of each value of a variable given the rest; see `flatpc.queries.conditional_proba`.

        Parameters
        ----------
        X
            Rows; the variable's own values are not looked at.
        variable
            One that takes finitely many values.
        missing
            `"marginalize"`, or `"raise"` to refuse NaN in other columns.
        engine, dtype, device, uncertainty
            As for `log_prob`.

        Returns
        -------
        array or tensor
            `[N, n]`, for a variable of n values.

        Raises
        ------
        DataError, OptionError
            As for `log_prob`; and where known values have probability zero, or the variable takes infinitely many values.
        """
        from flatpc import queries

        options: Any = {"missing": missing, "engine": engine, "dtype": dtype, "device": device, "uncertainty": uncertainty}
        return queries.conditional_proba(cast("Circuit", self), X, variable=variable, **options)

    def sample(
        self,
        n: int = 1,
        *,
        given: Any = None,
        seed: int = 0,
        missing: str = "marginalize",
        engine: str = "auto",
        dtype: str = "float64",
        device: Any = None,
    ) -> Any:
        """Rows drawn from the circuit, or completions of given ones; see `flatpc.queries.sample`.

        Parameters
        ----------
        n
            How many rows, or how many completions of every given row.
        given
            A table in which NaN is unknown, or one row.
        seed
            Random seed: the same one gives the same rows.
        missing
            `"marginalize"`, or `"raise"` to refuse NaN in `given`.
        engine, dtype, device
            As for `log_prob`.

        Returns
        -------
        array or tensor
            `[n, D]`; for a table `given`, `[n, M, D]`.

        Raises
        ------
        DataError, OptionError
            As for `log_prob`; and where known values have probability zero.
        """
        from flatpc import queries

        return queries.sample(
            cast("Circuit", self), n, given=given, seed=seed, missing=missing, engine=engine, dtype=dtype, device=device
        )

    def mpe(
        self, X: Any, *, missing: str = "marginalize", engine: str = "auto", dtype: str = "float64", device: Any = None
    ) -> Completion:
        """NaN entries completed with most probable values; see `flatpc.queries.mpe`.

        Parameters
        ----------
        X
            Rows; NaN is what is asked for.
        missing
            `"marginalize"`, or `"raise"` to refuse NaN.
        engine, dtype, device
            As for `log_prob`.

        Returns
        -------
        Completion
            The rows, their log-likelihoods, and whether no completion is more probable.

        Raises
        ------
        DataError, OptionError
            As for `log_prob`; and where known values have probability zero.
        """
        from flatpc import queries

        return queries.mpe(cast("Circuit", self), X, missing=missing, engine=engine, dtype=dtype, device=device)

    def expectation(
        self,
        X: Any,
        *,
        missing: str = "marginalize",
        engine: str = "auto",
        dtype: str = "float64",
        device: Any = None,
        uncertainty: Any = None,
    ) -> Any:
        """NaN entries filled with their means given the rest; see `flatpc.queries.expectation`.

        Parameters
        ----------
        X
            Rows; NaN is what is asked for.
        missing
            `"marginalize"`, or `"raise"` to refuse NaN.
        engine, dtype, device, uncertainty
            As for `log_prob`.

        Returns
        -------
        array or tensor
            `[N, D]`.

        Raises
        ------
        DataError, OptionError
            As for `log_prob`; and where known values have probability zero.
        """
        from flatpc import queries

        return queries.expectation(
            cast("Circuit", self), X, missing=missing, engine=engine, dtype=dtype, device=device, uncertainty=uncertainty
        )

    def variance(
        self, X: Any, *, missing: str = "marginalize", engine: str = "auto", dtype: str = "float64", device: Any = None
    ) -> Any:
        """Variances of NaN entries given the rest; see `flatpc.queries.variance`.

        Parameters
        ----------
        X
            Rows; NaN is what is asked for.
        missing
            `"marginalize"`, or `"raise"` to refuse NaN.
        engine, dtype, device
            As for `log_prob`.

        Returns
        -------
        array or tensor
            `[N, D]`, 0 where X is known.

        Raises
        ------
        DataError, OptionError
            As for `log_prob`; and where known values have probability zero.
        """
        from flatpc import queries

        return queries.variance(cast("Circuit", self), X, missing=missing, engine=engine, dtype=dtype, device=device)

    def flows(self, X: Any, *, missing: str = "raise", engine: str = "auto", dtype: str = "float64", device: Any = None) -> Flows:
        """Expected use of every edge and input, summed over rows; see `flatpc.queries.flows`.

        Parameters
        ----------
        X, missing, engine, dtype, device
            As for `log_prob`.

        Returns
        -------
        Flows
            Log-likelihoods, flows of edges and statistics of inputs, as NumPy arrays.

        Raises
        ------
        DataError, OptionError
            As for `log_prob`.
        """
        from flatpc import queries

        return queries.flows(cast("Circuit", self), X, missing=missing, engine=engine, dtype=dtype, device=device)

    def dropout_uncertainty(
        self,
        X: Any,
        *,
        p: float = 0.1,
        exact: bool = True,
        missing: str = "raise",
        engine: str = "auto",
        dtype: str = "float64",
        device: Any = None,
    ) -> DropoutUncertainty:
        """Mean and variance of p(x) when edges are dropped at random; see `flatpc.queries.dropout_uncertainty`.

        Parameters
        ----------
        X
            Rows.
        p
            The probability that an edge is dropped, from 0 to less than 1.
        exact
            False takes different nodes for independent, which is right for trees.
        missing, engine, dtype, device
            As for `log_prob`.

        Returns
        -------
        DropoutUncertainty
            The moments, row by row.

        Raises
        ------
        TiedParametersError, StructureError
            The circuit has no closed form for it.
        DataError, OptionError
            As for `log_prob`.
        """
        from flatpc import queries

        return queries.dropout_uncertainty(
            cast("Circuit", self), X, p=p, exact=exact, missing=missing, engine=engine, dtype=dtype, device=device
        )
