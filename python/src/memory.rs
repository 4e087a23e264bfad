//! Numbers that Rust has made and Python reads, without a copy.
//!
//! `Memory` is a Python type that implements the buffer protocol and nothing else; `millstream.Array` inherits from it.
//! The stable ABI of Python 3.10 has the protocol's slots, but PyO3 offers them from 3.11 on only. So the type is made
//! here from its slots. The numbers are freed with the last array, view or tensor of them.

#![expect(unsafe_code, reason = "a Python type made from its slots, and memory that Python may write to")]

use std::ffi::{c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyType};

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

/// The elements of a vector, which Python may write to, so that Rust holds no reference to them.
#[derive(Debug)]
pub(crate) struct Numbers {
    first: NonNull<u8>,
    len: usize,
    capacity: usize,
    kind: Kind,
}

// SAFETY: they are plain numbers, and only Python writes to them.
unsafe impl Send for Numbers {}
// SAFETY: the same.
unsafe impl Sync for Numbers {}

impl Numbers {
    fn of<T>(numbers: Vec<T>, kind: Kind) -> Arc<Self> {
        debug_assert_eq!(size_of::<T>(), kind.size());
        let mut numbers = ManuallyDrop::new(numbers);
        let first = NonNull::from(numbers.as_mut_slice()).cast();
        Arc::new(Self { first, len: numbers.len(), capacity: numbers.capacity(), kind })
    }

    /// Ids, which are below 2^31.
    pub(crate) fn ids(ids: Vec<u32>) -> Arc<Self> {
        Self::of(ids, Kind::Int32)
    }

    pub(crate) fn i32(numbers: Vec<i32>) -> Arc<Self> {
        Self::of(numbers, Kind::Int32)
    }

    pub(crate) fn i64(numbers: Vec<i64>) -> Arc<Self> {
        Self::of(numbers, Kind::Int64)
    }

    pub(crate) fn bools(numbers: Vec<bool>) -> Arc<Self> {
        Self::of(numbers, Kind::Bool)
    }

    /// The element at `index`, as an integer.
    fn get(&self, index: usize) -> i64 {
        assert!(index < self.len, "element {index} of {}", self.len);
        // SAFETY: it is within the vector, and of this kind.
        unsafe {
            match self.kind {
                Kind::Int32 => self.first.cast::<i32>().add(index).read().into(),
                Kind::Int64 => self.first.cast::<i64>().add(index).read(),
                Kind::Bool => self.first.add(index).read().into(),
            }
        }
    }

    /// A copy of ids.
    pub(crate) fn to_ids(&self) -> Vec<u32> {
        (0..self.len).map(|index| self.get(index) as u32).collect()
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        let (len, capacity) = (self.len, self.capacity);
        // SAFETY: this is the vector that `of` took apart, of the same type.
        unsafe {
            match self.kind {
                Kind::Int32 => drop(Vec::from_raw_parts(self.first.cast::<i32>().as_ptr(), len, capacity)),
                Kind::Int64 => drop(Vec::from_raw_parts(self.first.cast::<i64>().as_ptr(), len, capacity)),
                Kind::Bool => drop(Vec::from_raw_parts(self.first.as_ptr(), len, capacity)),
            }
        }
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
        let at = self.from.min(self.numbers.len) * self.kind().size();
        // SAFETY: it is within the vector, or at its end.
        unsafe { self.numbers.first.add(at).as_ptr().cast() }
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

    fn row<'py>(&self, py: Python<'py>, row: isize) -> PyResult<Bound<'py, PyList>> {
        let size = self.kind().size() as isize;
        let (count, first) = match self.dimensions {
            1 => (self.shape[0], 0),
            _ => (self.shape[1], row * self.strides[0] / size),
        };
        let elements = (0..count).map(|index| self.numbers.get(self.from + (first + index) as usize));
        match self.kind() {
            Kind::Bool => PyList::new(py, elements.map(|element| element != 0).collect::<Vec<_>>()),
            _ => PyList::new(py, elements.collect::<Vec<_>>()),
        }
    }
}

/// An object of the type. It owns the view.
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
const WITH_FORMAT: c_int = 0x4;
const WITH_SHAPE: c_int = 0x8;
const WITH_STRIDES: c_int = 0x10 | WITH_SHAPE;
const CONTIGUOUS: c_int = 0xe0;

/// Fills a buffer. `shape` and `strides` point into the view, which the object keeps.
unsafe extern "C" fn get_buffer(object: *mut ffi::PyObject, buffer: *mut Buffer, flags: c_int) -> c_int {
    // SAFETY: Python calls this with an object of the type, and with a buffer to be filled.
    unsafe {
        let view = &*(*object.cast::<Object>()).view;
        let has_strides = flags & WITH_STRIDES == WITH_STRIDES;
        let is_fortran = flags & CONTIGUOUS == 0x40 && view.dimensions > 1;
        if (!has_strides || flags & CONTIGUOUS != 0) && !view.is_contiguous() || is_fortran {
            (*buffer).obj = null_mut();
            ffi::PyErr_SetString(
                ffi::PyExc_BufferError,
                c"this is a view of wider rows, not contiguous memory; copy it first".as_ptr(),
            );
            return -1;
        }
        let size = view.kind().size() as isize;
        let numbers = |wanted: bool, numbers: &[isize]| {
            if wanted { numbers.as_ptr().cast_mut() } else { null_mut() }
        };
        ffi::Py_INCREF(object);
        buffer.write(Buffer {
            buf: view.data(),
            obj: object,
            len: view.len() * size,
            itemsize: size,
            readonly: 0,
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
        });
    }
    0
}

unsafe extern "C" fn dealloc(object: *mut ffi::PyObject) {
    // SAFETY: Python calls this once, with an object of the type. An object of a heap type holds its type.
    unsafe {
        let view = (*object.cast::<Object>()).view;
        if !view.is_null() {
            drop(Box::from_raw(view));
        }
        let of = ffi::Py_TYPE(object);
        let free = ffi::PyType_GetSlot(of, ffi::Py_tp_free);
        let free: ffi::freefunc = std::mem::transmute(free);
        free(object.cast());
        ffi::Py_DECREF(of.cast());
    }
}

/// Refuses to be called from Python: there would be no numbers.
unsafe extern "C" fn new(
    _: *mut ffi::PyTypeObject,
    _: *mut ffi::PyObject,
    _: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: it sets an error.
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
        // SAFETY: the slots end with zeros and have the types that Python expects; Python copies what it needs.
        let made = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&raw mut spec))? };
        Ok::<_, PyErr>(made.cast_into::<PyType>()?.unbind())
    })?;
    Ok(made.bind(py).clone())
}

/// A view as Python has it: a `millstream.Array`.
pub(crate) fn array(py: Python<'_>, view: View) -> PyResult<Bound<'_, PyAny>> {
    static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let of = ARRAY.import(py, "millstream._array", "Array")?;
    // SAFETY: the class inherits from `Memory` and adds nothing to its objects, so they are laid out as it is.
    unsafe {
        let object = ffi::PyType_GenericAlloc(of.as_type_ptr(), 0);
        let made = Bound::from_owned_ptr_or_err(py, object)?;
        (*object.cast::<Object>()).view = Box::into_raw(Box::new(view));
        Ok(made)
    }
}

/// The view of an array.
pub(crate) fn view_of<'a>(array: &'a Bound<'_, PyAny>) -> PyResult<&'a View> {
    let of = type_object(array.py())?;
    // By its real type: `isinstance` believes what an object says of itself.
    // SAFETY: both are objects, and the second one is a type.
    if unsafe { ffi::PyObject_TypeCheck(array.as_ptr(), of.as_type_ptr()) } == 0 {
        return Err(PyTypeError::new_err("this is not an array of a batch"));
    }
    // SAFETY: it is an object of the type, which owns a view as long as it lives.
    Ok(unsafe { &*(*array.as_ptr().cast::<Object>()).view })
}

/// The shape, the strides in bytes, and the kind of an array's elements.
#[pyfunction]
pub(crate) fn describe(array: &Bound<'_, PyAny>) -> PyResult<(Vec<isize>, Vec<isize>, &'static str)> {
    let view = view_of(array)?;
    Ok((view.shape().to_vec(), view.strides().to_vec(), view.kind().name()))
}

/// An array's elements, as lists.
#[pyfunction]
pub(crate) fn tolist<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
    let (py, view) = (array.py(), view_of(array)?);
    if view.dimensions == 1 {
        return view.row(py, 0);
    }
    let rows: PyResult<Vec<_>> = (0..view.shape[0]).map(|row| view.row(py, row)).collect();
    PyList::new(py, rows?)
}
