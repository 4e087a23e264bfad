//! Numbers that Rust has made and Python reads, without a copy.
//!
//! `Memory` is a Python type that implements the buffer protocol and nothing else; `millstream.Array` inherits from it.
//! The stable ABI of Python 3.10 has the protocol's slots, but PyO3 offers them from 3.11 on only. So the type is made
//! here from its slots. The numbers are freed with the last array, view or tensor of them.
//!
//! The buffer protocol lends them read-only. DLPack does too, but PyTorch writes all the same, on threads that do not hold
//! the GIL. So Rust reads nothing that it handed out by DLPack: see [`Numbers::kept`].

#![expect(unsafe_code, reason = "a Python type made from its slots, and memory that others may write to")]

use std::any::Any;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Int32,
    Int64,
    Bool,
}

impl Kind {
    /// Its name, as numpy has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Bool => "bool",
        }
    }

    /// Its size in bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::Int32 => 4,
            Self::Int64 => 8,
            Self::Bool => 1,
        }
    }

    /// Its format, as the buffer protocol and `struct` have it.
    fn format(self) -> &'static std::ffi::CStr {
        match self {
            Self::Int32 => c"i",
            Self::Int64 => c"q",
            Self::Bool => c"?",
        }
    }
}

/// An element of a vector that Python can read.
pub(crate) trait Element: Send + Sync + 'static {
    const KIND: Kind;
}

/// Ids and their like, which are below 2^31.
impl Element for u32 {
    const KIND: Kind = Kind::Int32;
}

impl Element for i32 {
    const KIND: Kind = Kind::Int32;
}

impl Element for i64 {
    const KIND: Kind = Kind::Int64;
}

impl Element for bool {
    const KIND: Kind = Kind::Bool;
}

/// The elements of a vector. Others may write to them, so Rust holds no reference to them.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The vector, which frees them.
    vector: Box<dyn Any + Send + Sync>,
    first: *mut c_void,
    len: usize,
    kind: Kind,
    /// Of ids that Rust reads again.
    kept: Option<OnceLock<Vec<u32>>>,
}

// SAFETY: the vector may be sent and shared, as its type says. `first` points to its elements, wherever it is moved to, and
// nothing here reads or writes through it.
unsafe impl Send for Numbers {}
// SAFETY: as above.
unsafe impl Sync for Numbers {}

impl Numbers {
    /// Numbers that Rust does not read again.
    pub(crate) fn new<T: Element>(numbers: Vec<T>) -> Arc<Self> {
        Arc::new(Self::of(numbers, None))
    }

    /// Ids of which Rust keeps a copy, once others may write to them.
    pub(crate) fn ids(ids: Vec<u32>) -> Arc<Self> {
        Arc::new(Self::of(ids, Some(OnceLock::new())))
    }

    fn of<T: Element>(mut numbers: Vec<T>, kept: Option<OnceLock<Vec<u32>>>) -> Self {
        let (first, len) = (numbers.as_mut_ptr().cast(), numbers.len());
        Self { vector: Box::new(numbers), first, len, kind: T::KIND, kept }
    }

    /// The ids that Rust reads again, as they were before others could write to them.
    ///
    /// Whoever hands the memory out to be written to calls this first. It reads the vector once, under the GIL, so that nobody
    /// hands it out meanwhile; until then only the buffer protocol has lent it, read-only.
    pub(crate) fn kept(&self, _: Python<'_>) -> &[u32] {
        let copy = || self.vector.downcast_ref::<Vec<u32>>().cloned().unwrap_or_default();
        self.kept.as_ref().map_or(&[], |kept| kept.get_or_init(copy))
    }
}

/// A view of some numbers: an array of one or two dimensions.
#[derive(Debug)]
pub(crate) struct View {
    numbers: Arc<Numbers>,
    /// The index of its first element.
    from: usize,
    shape: [isize; 2],
    /// From one element to the next along each dimension, in bytes.
    strides: [isize; 2],
    dimensions: usize,
}

impl View {
    /// All of them, in one dimension.
    pub(crate) fn flat(numbers: Arc<Numbers>) -> Self {
        let (len, size) = (numbers.len as isize, numbers.kind.size() as isize);
        Self { numbers, from: 0, shape: [len, 1], strides: [size, size], dimensions: 1 }
    }

    /// Columns `from..from + columns` of rows that are `width` wide.
    pub(crate) fn columns(numbers: Arc<Numbers>, width: usize, from: usize, columns: usize) -> Self {
        assert!(from + columns <= width, "columns {from} to {} of {width}", from + columns);
        let rows = numbers.len.checked_div(width).unwrap_or(0);
        let size = numbers.kind.size() as isize;
        let (shape, strides) = ([rows as isize, columns as isize], [width as isize * size, size]);
        Self { numbers, from, shape, strides, dimensions: 2 }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.numbers.kind
    }

    /// Its first element; where there is none, the end of the memory.
    pub(crate) fn data(&self) -> *mut c_void {
        self.numbers.first.wrapping_byte_add(self.from.min(self.numbers.len) * self.kind().size())
    }

    pub(crate) fn shape(&self) -> &[isize] {
        &self.shape[..self.dimensions]
    }

    /// In bytes.
    pub(crate) fn strides(&self) -> &[isize] {
        &self.strides[..self.dimensions]
    }

    pub(crate) fn numbers(&self) -> &Arc<Numbers> {
        &self.numbers
    }

    /// Whether its elements lie one behind the other.
    fn is_contiguous(&self) -> bool {
        let [rows, columns] = self.shape;
        self.dimensions == 1 || rows <= 1 || self.strides[0] == columns * self.strides[1]
    }

    fn len(&self) -> isize {
        self.shape().iter().product()
    }

    /// The same view of other memory, contiguous, whose elements are those of `bytes`.
    pub(crate) fn with_elements(&self, bytes: &[u8]) -> PyResult<Self> {
        if bytes.len() as isize != self.len() * self.kind().size() as isize {
            return Err(PyValueError::new_err("these are not the bytes of the array"));
        }
        let numbers = match self.kind() {
            Kind::Int32 => Numbers::new(elements(bytes, i32::from_ne_bytes)),
            Kind::Int64 => Numbers::new(elements(bytes, i64::from_ne_bytes)),
            Kind::Bool => Numbers::new(elements(bytes, |[byte]| byte != 0)),
        };
        Ok(match self.dimensions {
            1 => Self::flat(numbers),
            _ => Self::columns(numbers, self.shape[1] as usize, 0, self.shape[1] as usize),
        })
    }
}

fn elements<T, const SIZE: usize>(bytes: &[u8], element: impl Fn([u8; SIZE]) -> T) -> Vec<T> {
    bytes.as_chunks().0.iter().map(|bytes| element(*bytes)).collect()
}

/// An object of the type. It owns the view, which it has from `array` on until the end.
#[repr(C)]
struct Object {
    head: ffi::PyObject,
    view: *mut View,
}

/// A buffer as the stable ABI lays it out.
#[repr(C)]
struct Buffer {
    buf: *mut c_void,
    obj: *mut ffi::PyObject,
    len: ffi::Py_ssize_t,
    itemsize: ffi::Py_ssize_t,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut ffi::Py_ssize_t,
    strides: *mut ffi::Py_ssize_t,
    suboffsets: *mut ffi::Py_ssize_t,
    internal: *mut c_void,
}

// The slots' numbers and the flags, as `typeslots.h` and `object.h` have them.
const BF_GETBUFFER: c_int = 1;
const WRITABLE: c_int = 0x1;
const WITH_FORMAT: c_int = 0x4;
const WITH_SHAPE: c_int = 0x8;
const WITH_STRIDES: c_int = 0x10 | WITH_SHAPE;
const CONTIGUOUS: c_int = 0xe0;

/// Fills a buffer. `shape` and `strides` point into the view, which lives as long as the object, to which the buffer holds a
/// reference.
///
/// # Safety
/// As Python calls a type's slot: with the GIL, an object of the type, and a buffer to be filled.
unsafe extern "C" fn get_buffer(object: *mut ffi::PyObject, buffer: *mut Buffer, flags: c_int) -> c_int {
    // SAFETY: the object is of the type, so that it is an `Object` and owns a view. The caller holds it during the call.
    let view = unsafe { &*(*object.cast::<Object>()).view };
    let has_strides = flags & WITH_STRIDES == WITH_STRIDES;
    let is_fortran = flags & CONTIGUOUS == 0x40 && view.dimensions > 1;
    let problem = if flags & WRITABLE != 0 {
        c"arrays of a batch are read-only; copy it first"
    } else if (!has_strides || flags & CONTIGUOUS != 0) && !view.is_contiguous() || is_fortran {
        c"this is a view of wider rows, not contiguous memory; copy it first"
    } else {
        let size = view.kind().size() as isize;
        let numbers = |wanted: bool, numbers: &[isize]| {
            if wanted { numbers.as_ptr().cast_mut() } else { null_mut() }
        };
        let filled = Buffer {
            buf: view.data(),
            obj: object,
            len: view.len() * size,
            itemsize: size,
            readonly: 1,
            ndim: view.dimensions as c_int,
            format: if flags & WITH_FORMAT != 0 {
                view.kind().format().as_ptr().cast_mut()
            } else {
                null_mut()
            },
            shape: numbers(flags & WITH_SHAPE != 0, view.shape()),
            strides: numbers(has_strides, view.strides()),
            suboffsets: null_mut(),
            internal: null_mut(),
        };
        // SAFETY: the object is alive, and this thread has the GIL. The buffer owns the new reference: Python gives it back
        // when the buffer is released.
        unsafe { ffi::Py_INCREF(object) };
        // SAFETY: the buffer is Python's to be filled, and has this layout in the stable ABI.
        unsafe { buffer.write(filled) };
        return 0;
    };
    // SAFETY: the buffer is Python's to be filled; a refusal leaves it without an object.
    unsafe { (&raw mut (*buffer).obj).write(null_mut()) };
    // SAFETY: this thread has the GIL; the exception lives as long as Python, and the text ends with a zero.
    unsafe { ffi::PyErr_SetString(ffi::PyExc_BufferError, problem.as_ptr()) };
    -1
}

/// # Safety
/// As Python calls a type's slot: with the GIL, once for each object of the type, when nothing refers to it any more.
unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: the object is of the type, so that it is an `Object`.
    let view = unsafe { (*object.cast::<Object>()).view };
    if !view.is_null() {
        // SAFETY: `array` made it of a box, and nobody uses it any more: buffers hold references to the object, and DLPack's
        // tensors hold the numbers themselves.
        drop(unsafe { Box::from_raw(view) });
    }
    // SAFETY: the object still has its type. It is one on the heap, as `Memory` and all classes that inherit from it are, of
    // which each object owns a reference.
    let of = unsafe { ffi::Py_TYPE(object) };
    // SAFETY: a type on the heap has slots, of which this one is a `freefunc` and never null. It frees what its allocator
    // made, and is called last.
    unsafe {
        let free: ffi::freefunc = std::mem::transmute(ffi::PyType_GetSlot(of, ffi::Py_tp_free));
        free(object.cast());
    }
    // SAFETY: the reference is the object's, which is gone.
    unsafe { ffi::Py_DECREF(of.cast()) };
}

/// Refuses to be called from Python: there would be no numbers.
///
/// # Safety
/// As Python calls a type's slot: with the GIL.
unsafe extern "C" fn new(
    _: *mut ffi::PyTypeObject,
    _: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: this thread has the GIL; the exception lives as long as Python, and the text ends with a zero.
    unsafe {
        ffi::PyErr_SetString(ffi::PyExc_TypeError, c"batches make arrays; you cannot create one".as_ptr());
    }
    null_mut()
}

/// The type.
pub(crate) fn type_object(py: Python<'_>) -> PyResult<Bound<'_, PyType>> {
    static TYPE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let made = TYPE.get_or_try_init(py, || {
        let slot = |slot, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
        let mut slots = [
            slot(BF_GETBUFFER, get_buffer as *mut c_void),
            slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
            slot(ffi::Py_tp_new, new as *mut c_void),
            slot(ffi::Py_tp_doc, c"Numbers by the buffer protocol.".as_ptr().cast_mut().cast()),
            slot(0, null_mut()),
        ];
        let mut spec = ffi::PyType_Spec {
            name: c"millstream._millstream.Memory".as_ptr(),
            basicsize: size_of::<Object>() as c_int,
            itemsize: 0,
            flags: (ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE) as _,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: this thread has the GIL. The slots end with zeros, and each has the type that Python expects for its number.
        // Python copies them; the name and the documentation are static. Objects begin with Python's head, and are as large
        // as `basicsize` says.
        let made = unsafe { ffi::PyType_FromSpec(&raw mut spec) };
        // SAFETY: it is a new reference, or null with an error set.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, made)? };
        Ok::<_, PyErr>(made.cast_into::<PyType>()?.unbind())
    })?;
    Ok(made.bind(py).clone())
}

/// A view as Python has it: a `millstream.Array`.
pub(crate) fn array(py: Python<'_>, view: View) -> PyResult<Bound<'_, PyAny>> {
    static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let (of, memory) = (ARRAY.import(py, "millstream._array", "Array")?, type_object(py)?);
    // SAFETY: both are types, and alive.
    if unsafe { ffi::PyType_IsSubtype(of.as_type_ptr(), memory.as_type_ptr()) } == 0 {
        return Err(PyTypeError::new_err("millstream.Array does not inherit from Memory"));
    }
    // SAFETY: it is a type, and this thread has the GIL.
    let object = unsafe { ffi::PyType_GenericAlloc(of.as_type_ptr(), 0) };
    // SAFETY: it is a new reference, or null with an error set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, object)? };
    // SAFETY: the class inherits from `Memory`, so that its objects begin as `Object` does. Nobody else has seen this one, whose
    // view is null so far.
    unsafe { (*object.cast::<Object>()).view = Box::into_raw(Box::new(view)) };
    Ok(made)
}

/// The view of an array.
pub(crate) fn view_of<'a>(array: &'a Bound<'_, PyAny>) -> PyResult<&'a View> {
    let of = type_object(array.py())?;
    // By its real type: `isinstance` believes what an object says of itself.
    // SAFETY: both are alive, and the second one is a type.
    if unsafe { ffi::PyObject_TypeCheck(array.as_ptr(), of.as_type_ptr()) } == 0 {
        return Err(PyTypeError::new_err("this is not an array of a batch"));
    }
    // SAFETY: it is an object of the type, which owns a view as long as it lives, and `array` keeps it alive. Nothing changes
    // a view.
    Ok(unsafe { &*(*array.as_ptr().cast::<Object>()).view })
}

/// The shape, the strides in bytes, and the kind of an array's elements.
#[pyfunction]
pub(crate) fn describe(array: &Bound<'_, PyAny>) -> PyResult<(Vec<isize>, Vec<isize>, &'static str)> {
    let view = view_of(array)?;
    Ok((view.shape().to_vec(), view.strides().to_vec(), view.kind().name()))
}
