//! An array that is owned, or lies in a memory-mapped file.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytemuck::AnyBitPattern;
use memmap2::Mmap;

/// A read-only array of plain numbers.
#[derive(Clone)]
pub(crate) enum Buffer<T> {
    Owned(Vec<T>),
    /// Bytes of a mapped file, aligned for `T` and a whole number of them.
    Mapped(Arc<Mmap>, Range<usize>, PhantomData<T>),
}

impl<T: AnyBitPattern> Buffer<T> {
    /// The bytes `range` of a mapped file, if they are aligned and whole numbers of `T`.
    pub(crate) fn mapped(map: &Arc<Mmap>, range: Range<usize>) -> Option<Buffer<T>> {
        let bytes = map.get(range.clone())?;
        bytemuck::try_cast_slice::<u8, T>(bytes).ok()?;
        Some(Buffer::Mapped(map.clone(), range, PhantomData))
    }
}

impl<T: AnyBitPattern> Deref for Buffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Buffer::Owned(values) => values,
            Buffer::Mapped(map, range, _) => bytemuck::cast_slice(&map[range.clone()]),
        }
    }
}

impl<T> From<Vec<T>> for Buffer<T> {
    fn from(values: Vec<T>) -> Self {
        Buffer::Owned(values)
    }
}

impl<T: AnyBitPattern + PartialEq> PartialEq for Buffer<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: AnyBitPattern + fmt::Debug> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.deref().fmt(f)
    }
}
