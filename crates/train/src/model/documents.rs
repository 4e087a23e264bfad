//! Says where the documents of packed rows begin, so that attention stays within them.

use burn::tensor::{Int, Tensor};

/// The documents of packed rows.
#[derive(Clone, Debug)]
pub struct Documents {
    /// The place of each id in its document, `[batch, length]`; 0 for padding, so that each padding is on its own.
    pub positions: Tensor<2, Int>,
}

impl Documents {
    /// The place in its row where each id's document begins, `[batch, length]`.
    pub fn starts(&self) -> Tensor<2, Int> {
        let [_, length] = self.positions.dims();
        let places = Tensor::<1, Int>::arange(0..length as i64, &self.positions.device());
        places.unsqueeze::<2>() - self.positions.clone()
    }
}
