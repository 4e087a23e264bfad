//! The numbers of an f32 tensor in the CPU's memory.

use burn::backend::Flex;
use burn::backend::flex::FlexTensor;
use burn::tensor::{Shape, Tensor, TensorData};

/// A tensor whose numbers lie in one piece, row-major.
#[derive(Clone, Debug)]
pub(super) struct Numbers(FlexTensor);

impl Numbers {
    /// # Panics
    /// If [`has`](super::has) says no.
    pub(super) fn new<const D: usize>(tensor: Tensor<D>) -> Self {
        let tensor =
            tensor.try_into_primitive::<Flex>().expect("a tensor in the CPU's memory, without autodiff");
        Self(tensor.to_contiguous())
    }

    pub(super) fn get(&self) -> &[f32] {
        self.0.storage()
    }

    /// The numbers, to be changed in place. If another tensor shares them, they are copied first.
    pub(super) fn get_mut(&mut self) -> &mut [f32] {
        self.0.storage_mut()
    }

    pub(super) fn into_tensor<const D: usize>(self) -> Tensor<D> {
        Tensor::from_primitive::<Flex>(self.0)
    }
}

/// A tensor of `numbers`, row-major, without a copy.
pub(super) fn tensor<const D: usize>(numbers: Vec<f32>, shape: [usize; D]) -> Tensor<D> {
    let data = TensorData::new(numbers, Shape::from(shape));
    Tensor::from_primitive::<Flex>(FlexTensor::from_data(data))
}
