//! Which parameters are matrices of hidden layers, and where one of them holds several matrices.

use burn::module::{Param, ParamId};
use burn::tensor::Tensor;

/// A parameter that holds matrices of a hidden layer, for Muon: one, or several side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenMatrix {
    pub(crate) id: ParamId,
    /// The width of each of its matrices, from the left.
    pub(crate) widths: Vec<usize>,
}

impl HiddenMatrix {
    /// A parameter that is one matrix.
    pub fn new(param: &Param<Tensor<2>>) -> Self {
        Self { id: param.id, widths: vec![param.lazy_shape()[1]] }
    }

    /// A parameter whose columns are those of several matrices, such as the projections to queries, keys and values.
    /// Each is stepped alone, as if it had a parameter of its own.
    ///
    /// # Panics
    /// If the widths do not add up to the parameter's.
    pub fn side_by_side(param: &Param<Tensor<2>>, widths: &[usize]) -> Self {
        let (sum, width) = (widths.iter().sum::<usize>(), param.lazy_shape()[1]);
        assert_eq!(sum, width, "the widths of the matrices of a parameter add up to its width");
        Self { id: param.id, widths: widths.to_vec() }
    }
}
