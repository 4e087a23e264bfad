//! Arrays by DLPack, which PyTorch, JAX and others take without a copy.
//! (<https://dmlc.github.io/dlpack/latest/c_api.html>)

#![expect(unsafe_code, reason = "DLPack is C structures in a capsule")]

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

use super::memory::{Kind, Numbers, view_of};

/// Memory of the host.
const CPU: i32 = 1;

const SIGNED: u8 = 0;
const BOOL: u8 = 6;

#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device_type: i32,
    device_id: i32,
    dimensions: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// A tensor and who frees it, as DLPack had it before version 1.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// The same since version 1.
#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: Tensor,
}

/// What a tensor points to.
struct Kept {
    _numbers: Arc<Numbers>,
    shape: [i64; 2],
    strides: [i64; 2],
}

unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: the consumer calls this once, with what `dlpack` made.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Kept>()));
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut Versioned) {
    // SAFETY: as above.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Kept>()));
    }
}

const NAME: &CStr = c"dltensor";
const VERSIONED_NAME: &CStr = c"dltensor_versioned";

/// Frees what nobody took: a consumer renames the capsule.
unsafe extern "C" fn end(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with a capsule that `dlpack` made.
    unsafe {
        for name in [NAME, VERSIONED_NAME] {
            if ffi::PyCapsule_IsValid(capsule, name.as_ptr()) == 0 {
                continue;
            }
            let pointer = ffi::PyCapsule_GetPointer(capsule, name.as_ptr());
            match name == NAME {
                true => delete(pointer.cast()),
                false => delete_versioned(pointer.cast()),
            }
            return;
        }
    }
}

/// A capsule of an array, for the consumer's version.
#[pyfunction]
pub(crate) fn dlpack<'py>(array: &Bound<'py, PyAny>, is_versioned: bool) -> PyResult<Bound<'py, PyAny>> {
    let view = view_of(array)?;
    let size = view.kind().size() as i64;
    let mut kept = Box::new(Kept { _numbers: view.numbers().clone(), shape: [0; 2], strides: [1; 2] });
    for (at, (shape, stride)) in view.shape().iter().zip(view.strides()).enumerate() {
        kept.shape[at] = *shape as i64;
        // DLPack counts elements.
        kept.strides[at] = *stride as i64 / size;
    }
    let (shape, strides) = (kept.shape.as_mut_ptr(), kept.strides.as_mut_ptr());
    let tensor = Tensor {
        data: view.data(),
        device_type: CPU,
        device_id: 0,
        dimensions: view.shape().len() as i32,
        code: if view.kind() == Kind::Bool { BOOL } else { SIGNED },
        bits: 8 * size as u8,
        lanes: 1,
        shape,
        strides,
        byte_offset: 0,
    };
    let context = Box::into_raw(kept).cast();
    let (name, pointer) = if is_versioned {
        let deleter = Some(delete_versioned as unsafe extern "C" fn(*mut Versioned));
        let managed = Versioned { major: 1, minor: 0, context, deleter, flags: 0, tensor };
        (VERSIONED_NAME, Box::into_raw(Box::new(managed)).cast())
    } else {
        let deleter = Some(delete as unsafe extern "C" fn(*mut Managed));
        (NAME, Box::into_raw(Box::new(Managed { tensor, context, deleter })).cast())
    };
    // SAFETY: the pointer is not null, and the capsule's end or its consumer frees it.
    let capsule = unsafe { ffi::PyCapsule_New(pointer, name.as_ptr(), Some(end)) };
    // SAFETY: it is a new reference, or null with an error set.
    let capsule = unsafe { Bound::from_owned_ptr_or_opt(array.py(), capsule) };
    capsule.ok_or_else(|| PyBufferError::new_err("the array cannot be handed out"))
}
