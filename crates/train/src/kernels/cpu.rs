//! A step of the GPT on burn's CPU device: one pass over the numbers where burn's own kernels would make many, and
//! products of matrices by gemm.
//!
//! Each function takes tensors that are f32 in the CPU's memory, without autodiff: [`has`] checks that, and the
//! functions panic for others. For those, the callers use burn's operations.
//!
//! Loops run over rows, on all idle threads. They are compiled for several widths of vectors, and the widest that the
//! CPU has is used. They add in an order that depends on the shape alone, and fuse no operations into one rounding, so
//! their results depend neither on the number of threads nor on the width. gemm's results depend on the CPU's
//! instructions, and not on the number of threads.

/// Defines functions that are compiled for several widths of vectors, and run in the widest that this CPU has.
///
/// Functions that they call must be inlined, because only their own code is compiled so.
macro_rules! vectorized {
    ($($(#[$doc:meta])* $vis:vis fn $name:ident<'a>($($argument:ident: $type:ty),* $(,)?) $(-> $output:ty)? $work:block)*) => {$(
        $(#[$doc])*
        $vis fn $name<'a>($($argument: $type),*) $(-> $output)? {
            struct Work<'a>($($type,)* std::marker::PhantomData<&'a ()>);
            impl<'a> pulp::WithSimd for Work<'a> {
                type Output = vectorized!(@output $($output)?);

                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, _: S) -> Self::Output {
                    let Self($($argument,)* _) = self;
                    $work
                }
            }
            pulp::Arch::new().dispatch(Work($($argument,)* std::marker::PhantomData))
        }
    )*};
    (@output) => { () };
    (@output $output:ty) => { $output };
}

mod adamw;
mod attention;
mod elementwise;
mod heads;
mod loss;
mod matrix;
mod norm;
mod numbers;
mod product;
mod simd;
mod swiglu;

pub(crate) use adamw::AdamWKernel;
pub(super) use attention::AttentionKernel;
pub(crate) use elementwise::{add, scale, squares};
pub(super) use heads::{join_heads, split_heads};
pub(super) use loss::loss_and_slopes;
pub(super) use norm::{norm, norm_gradients};
pub(crate) use product::with_threads;
pub(super) use product::{add_product, product};
pub(super) use swiglu::{swiglu, swiglu_gradient};

use burn::tensor::{DType, Tensor};

use super::chunks::is_cpu;

/// How many numbers a thread takes at once: enough that handing them over costs nothing next to the work.
const GRAIN: usize = 1 << 14;

/// Whether a tensor is f32 in the CPU's memory, without autodiff.
pub(crate) fn has<const D: usize>(tensor: &Tensor<D>) -> bool {
    tensor.dtype() == DType::F32 && is_cpu(&tensor.device()) && !tensor.is_autodiff()
}

/// How many rows of `width` numbers a thread takes at once.
fn grain(width: usize) -> usize {
    (GRAIN / width.max(1)).max(1)
}
