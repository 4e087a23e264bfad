//! Arrays by DLPack, which PyTorch, JAX and others take without a copy.
//! (<https://dmlc.github.io/dlpack/latest/c_api.html>)

#![expect(unsafe_code, reason = "DLPack is C structures in a capsule")]

use std::ffi::{CStr, c_void};
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;

use super::memory::{Kind, Numbers, View, view_of};

/// Memory of the host.
const CPU: i32 = 1;

const SIGNED: u8 = 0;
const BOOL: u8 = 6;

/// Flags of a tensor.
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;

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

/// What a tensor points to.
struct Context {
    _numbers: Arc<Numbers>,
    shape: [i64; 2],
    strides: [i64; 2],
}

/// A tensor and who frees it, as consumers of one version know it.
trait Managed: Sized {
    /// The name of its capsules, until a consumer takes it.
    const NAME: &'static CStr;

    /// `context` is a `Context` of a box, which `delete` frees.
    fn new(tensor: Tensor, context: *mut c_void, flags: u64) -> Self;

    fn context(&self) -> *mut c_void;
}

/// Before version 1, in which nothing says that memory must not be written to.
#[repr(C)]
struct Unversioned {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

impl Managed for Unversioned {
    const NAME: &'static CStr = c"dltensor";

    fn new(tensor: Tensor, context: *mut c_void, _: u64) -> Self {
        Self { tensor, context, deleter: Some(delete) }
    }

    fn context(&self) -> *mut c_void {
        self.context
    }
}

#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: Tensor,
}

impl Managed for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";

    fn new(tensor: Tensor, context: *mut c_void, flags: u64) -> Self {
        Self { major: 1, minor: 0, context, deleter: Some(delete), flags, tensor }
    }

    fn context(&self) -> *mut c_void {
        self.context
    }
}

/// Frees what `capsule` made. The consumer may call this on any thread: nothing of Python is freed.
///
/// # Safety
/// `managed` is of `capsule`, and nobody uses it, nor its tensor's memory, any more.
unsafe extern "C" fn delete<T: Managed>(managed: *mut T) {
    // SAFETY: `capsule` made it of a box, and it is freed once: by the consumer, or by `end` if there was none.
    let managed = unsafe { Box::from_raw(managed) };
    // SAFETY: the same is true of its context.
    drop(unsafe { Box::from_raw(managed.context().cast::<Context>()) });
}

/// Frees what nobody took: a consumer renames the capsule.
///
/// # Safety
/// As Python ends a capsule: with the GIL, and one that `capsule::<T>` made.
unsafe extern "C" fn end<T: Managed>(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule is alive until this returns, and the name ends with a zero.
    if unsafe { ffi::PyCapsule_IsValid(capsule, T::NAME.as_ptr()) } == 0 {
        return;
    }
    // SAFETY: it has this name, so that it has the pointer that `capsule::<T>` gave it, and no consumer owns that.
    unsafe { delete::<T>(ffi::PyCapsule_GetPointer(capsule, T::NAME.as_ptr()).cast()) };
}

/// A capsule of a view.
fn capsule<'py, T: Managed>(py: Python<'py>, view: &View, flags: u64) -> PyResult<Bound<'py, PyAny>> {
    let size = view.kind().size() as i64;
    let mut context = Box::new(Context { _numbers: view.numbers().clone(), shape: [0; 2], strides: [1; 2] });
    for (at, (shape, stride)) in view.shape().iter().zip(view.strides()).enumerate() {
        context.shape[at] = *shape as i64;
        // DLPack counts elements.
        context.strides[at] = *stride as i64 / size;
    }
    let context = Box::into_raw(context);
    // SAFETY: the box is alive: `delete` frees it together with the tensor.
    let (shape, strides) = unsafe { (&raw mut (*context).shape, &raw mut (*context).strides) };
    let tensor = Tensor {
        data: view.data(),
        device_type: CPU,
        device_id: 0,
        dimensions: view.shape().len() as i32,
        code: if view.kind() == Kind::Bool { BOOL } else { SIGNED },
        bits: 8 * size as u8,
        lanes: 1,
        shape: shape.cast(),
        strides: strides.cast(),
        byte_offset: 0,
    };
    let managed = Box::into_raw(Box::new(T::new(tensor, context.cast(), flags)));
    // SAFETY: this thread has the GIL; the pointer is not null, and the name is static. Whoever frees it takes a `T`: `end`, or
    // a consumer, which knows by the name what it is.
    let made = unsafe { ffi::PyCapsule_New(managed.cast(), T::NAME.as_ptr(), Some(end::<T>)) };
    if made.is_null() {
        // SAFETY: there is no capsule, so nobody else has it.
        unsafe { delete(managed) };
    }
    // SAFETY: it is a new reference, or null with an error set.
    unsafe { Bound::from_owned_ptr_or_err(py, made) }
}

/// A capsule of an array, for the consumer's version: of its memory, or of `copy`, its elements one after the other.
#[pyfunction]
#[pyo3(signature = (array, is_versioned, copy = None))]
pub(crate) fn dlpack<'py>(
    array: &Bound<'py, PyAny>,
    is_versioned: bool,
    copy: Option<&[u8]>,
) -> PyResult<Bound<'py, PyAny>> {
    let (py, view) = (array.py(), view_of(array)?);
    let copy = copy.map(|copy| view.with_elements(copy)).transpose()?;
    let (view, flags) = match &copy {
        Some(copy) => (copy, IS_COPIED),
        None => {
            // Not all consumers know the flag or keep to it.
            view.numbers().kept(py);
            (view, READ_ONLY)
        }
    };
    match is_versioned {
        true => capsule::<Versioned>(py, view, flags),
        false => capsule::<Unversioned>(py, view, flags),
    }
}
