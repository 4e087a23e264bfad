//! Says which document each place of packed rows belongs to, so that attention stays within documents.

use burn::tensor::{Bool, Int, Tensor};

/// The documents of packed rows.
#[derive(Clone, Debug)]
pub struct Documents {
    /// A number for each document of a row, `[batch, length]`; padding has its own number.
    pub segments: Tensor<2, Int>,
    /// The place of each id in its document, `[batch, length]`.
    pub positions: Tensor<2, Int>,
}

impl Documents {
    /// True where a place (third dimension) may not look at another (fourth), `[batch, 1, length, length]`: at a later
    /// place, or one in another document. Every place sees itself, including padding, so no softmax is empty.
    pub fn unseen(&self) -> Tensor<4, Bool> {
        let [batch, length] = self.segments.dims();
        let shape = [batch, length, length];
        let of_query = self.segments.clone().unsqueeze_dim::<3>(2).expand(shape);
        let of_key = self.segments.clone().unsqueeze_dim::<3>(1).expand(shape);
        let later = Tensor::<2, Bool>::tril_mask([length, length], 0, &self.segments.device());
        of_query.not_equal(of_key).bool_or(later.unsqueeze::<3>().expand(shape)).unsqueeze_dim(1)
    }
}
