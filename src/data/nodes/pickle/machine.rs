//! The stack machine: one opcode after another, each of which makes, joins or fetches values.

use std::collections::HashMap;

use super::{Global, Id, Item, Number, Pickle, Stored, sizes};
use crate::error::Context as _;
use crate::{Error, MemoryLimit, Result};

/// What may be named, and what it is here.
const GLOBALS: [(&str, Global); 9] = [
    ("numpy.core.multiarray _reconstruct", Global::Reconstruct),
    // Where newer versions keep the same things.
    ("numpy._core.multiarray _reconstruct", Global::Reconstruct),
    ("numpy ndarray", Global::NdArray),
    ("numpy dtype", Global::Dtype),
    ("scipy.sparse.csr csr_matrix", Global::CsrMatrix),
    ("scipy.sparse._csr csr_matrix", Global::CsrMatrix),
    ("collections defaultdict", Global::DefaultDict),
    ("__builtin__ list", Global::List),
    ("builtins list", Global::List),
];

/// Opcodes that are known but refused, for messages.
const REFUSED: [(u8, &str); 28] = [
    (b'0', "POP"),
    (b'1', "POP_MARK"),
    (b'2', "DUP"),
    (b'F', "FLOAT"),
    (b'I', "INT"),
    (b'L', "LONG"),
    (b'P', "PERSID"),
    (b'Q', "BINPERSID"),
    (b'S', "STRING"),
    (b'V', "UNICODE"),
    (b'd', "DICT"),
    (b'g', "GET"),
    (b'i', "INST"),
    (b'l', "LIST"),
    (b'o', "OBJ"),
    (b'p', "PUT"),
    (0x82, "EXT1"),
    (0x83, "EXT2"),
    (0x84, "EXT4"),
    (0x8b, "LONG4"),
    (0x8c, "SHORT_BINUNICODE"),
    (0x8d, "BINUNICODE8"),
    (0x8e, "BINBYTES8"),
    (0x92, "NEWOBJ_EX"),
    (0x93, "STACK_GLOBAL"),
    (0x94, "MEMOIZE"),
    (0x95, "FRAME"),
    (0x96, "BYTEARRAY8"),
];

/// The state of reading.
pub(super) struct Machine<'a> {
    bytes: &'a [u8],
    at: usize,
    heap: Vec<Item<'a>>,
    stack: Vec<Id>,
    /// Heights of the stack that were marked.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    limit: MemoryLimit,
}

impl<'a> Machine<'a> {
    pub(super) fn new(bytes: &'a [u8], limit: MemoryLimit) -> Machine<'a> {
        Machine {
            bytes,
            at: 0,
            heap: Vec::new(),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: HashMap::new(),
            limit,
        }
    }

    /// Everything up to the end.
    pub(super) fn run(mut self) -> Result<Pickle<'a>> {
        loop {
            let at = self.at;
            let step = self.step().context(|| format!("not a readable pickle: byte {at}"))?;
            if let Some(root) = step {
                return Ok(Pickle { heap: self.heap, root });
            }
        }
    }

    /// One opcode; the value of the whole if it was the last.
    fn step(&mut self) -> Result<Option<Id>> {
        let at = self.at;
        match self.byte()? {
            // PROTO
            0x80 => match self.byte()? {
                2 | 3 => {}
                other => {
                    return Err(Error::data(format!(
                        "protocol {other}; write it with protocol 2 (`pickle.dump(…, protocol=2)`)"
                    )));
                }
            },
            // STOP
            b'.' => return self.pop().map(Some),
            // MARK
            b'(' => self.marks.push(self.stack.len()),
            b'N' => self.push(Item::None)?,
            0x88 => self.push(Item::Bool(true))?,
            0x89 => self.push(Item::Bool(false))?,
            // BININT, BININT1, BININT2, LONG1
            b'J' => {
                let number = i32::from_le_bytes(self.array()?);
                self.push(Item::Int(number.into()))?;
            }
            b'K' => {
                let number = self.byte()?;
                self.push(Item::Int(number.into()))?;
            }
            b'M' => {
                let number = u16::from_le_bytes(self.array()?);
                self.push(Item::Int(number.into()))?;
            }
            0x8a => {
                let number = self.long()?;
                self.push(Item::Int(number))?;
            }
            // BINFLOAT
            b'G' => {
                self.take(8)?;
                self.push(Item::Float)?;
            }
            // SHORT_BINSTRING and SHORT_BINBYTES; BINSTRING, BINUNICODE and BINBYTES
            b'U' | b'C' => {
                let length = self.byte()?;
                self.string(length.into())?;
            }
            b'T' | b'X' | b'B' => {
                let length = u32::from_le_bytes(self.array()?);
                self.string(length as usize)?;
            }
            b')' => self.push(Item::Tuple(Vec::new()))?,
            b']' => self.push(Item::List(Vec::new()))?,
            b'}' => self.push(Item::Dict(Vec::new()))?,
            // TUPLE, TUPLE1, TUPLE2, TUPLE3
            b't' => {
                let items = self.above_mark()?;
                self.push(Item::Tuple(items))?;
            }
            code @ 0x85..=0x87 => {
                let items = self.last(usize::from(code) - 0x84)?;
                self.push(Item::Tuple(items))?;
            }
            // APPEND, APPENDS
            b'a' => {
                let items = self.last(1)?;
                self.append(items)?;
            }
            b'e' => {
                let items = self.above_mark()?;
                self.append(items)?;
            }
            // SETITEM, SETITEMS
            b's' => {
                let items = self.last(2)?;
                self.set(&items)?;
            }
            b'u' => {
                let items = self.above_mark()?;
                self.set(&items)?;
            }
            // BINPUT, LONG_BINPUT; BINGET, LONG_BINGET
            b'q' => {
                let key = self.byte()?;
                self.put(key.into())?;
            }
            b'r' => {
                let key = u32::from_le_bytes(self.array()?);
                self.put(key)?;
            }
            b'h' => {
                let key = self.byte()?;
                self.get(key.into())?;
            }
            b'j' => {
                let key = u32::from_le_bytes(self.array()?);
                self.get(key)?;
            }
            // GLOBAL
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                let full = format!("{module} {name}");
                let known = GLOBALS.iter().find(|(known, _)| *known == full);
                let (_, global) = known.ok_or_else(|| {
                    Error::data(format!(
                        "it names `{module}.{name}`, which is not among what data need; it is not run"
                    ))
                })?;
                self.push(Item::Global(*global))?;
            }
            // REDUCE, NEWOBJ, BUILD
            b'R' => self.call()?,
            0x81 => self.new_object()?,
            b'b' => self.build()?,
            code => {
                self.at = at;
                let name = REFUSED.iter().find(|(known, _)| *known == code);
                return Err(Error::data(match name {
                    Some((_, name)) => format!("opcode {name} is not among what data need"),
                    None => format!("0x{code:02x} is no opcode"),
                }));
            }
        }
        Ok(None)
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..count).ok_or_else(|| Error::data("the file is cut off"))?;
        self.at += count;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// A whole number of at most eight bytes, two's complement.
    fn long(&mut self) -> Result<i64> {
        let length = self.byte()?;
        let bytes = self.take(length.into())?;
        if bytes.len() > 8 {
            return Err(Error::data("a whole number of more than 64 bits"));
        }
        let negative = bytes.last().is_some_and(|&last| last >= 0x80);
        let mut wide = if negative { [0xff; 8] } else { [0; 8] };
        wide[..bytes.len()].copy_from_slice(bytes);
        Ok(i64::from_le_bytes(wide))
    }

    fn string(&mut self, length: usize) -> Result<()> {
        let bytes = self.take(length)?;
        self.push(Item::Bytes(bytes))
    }

    /// Text up to the end of the line, of at most a hundred characters.
    fn line(&mut self) -> Result<String> {
        let rest = &self.bytes[self.at..];
        let end = rest.iter().take(100).position(|&b| b == b'\n');
        let end = end.ok_or_else(|| Error::data("a name without end"))?;
        self.at += end + 1;
        // latin-1: every byte is the character of that number.
        Ok(rest[..end].iter().map(|&byte| char::from(byte)).collect())
    }

    fn push(&mut self, item: Item<'a>) -> Result<()> {
        let bytes = (self.heap.len() + 1) * (size_of::<Item<'_>>() + 4 * size_of::<Id>());
        if bytes as u64 > self.limit.0 {
            self.limit.check(bytes as u128, "the pickle", "raise `--max-memory`")?;
        }
        self.stack.push(self.heap.len());
        self.heap.push(item);
        Ok(())
    }

    /// The lowest place of the stack that may be taken: what lies below a mark is not touched.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Id> {
        let top = self.top()?;
        self.stack.pop();
        Ok(top)
    }

    fn top(&self) -> Result<Id> {
        let above = &self.stack[self.floor()..];
        above.last().copied().ok_or_else(|| Error::data("a value is missing"))
    }

    fn last(&mut self, count: usize) -> Result<Vec<Id>> {
        let above = self.stack.len() - self.floor();
        match above >= count {
            true => Ok(self.stack.split_off(self.stack.len() - count)),
            false => Err(Error::data("a value is missing")),
        }
    }

    fn above_mark(&mut self) -> Result<Vec<Id>> {
        let mark = self.marks.pop().ok_or_else(|| Error::data("a mark is missing"))?;
        Ok(self.stack.split_off(mark))
    }

    fn append(&mut self, items: Vec<Id>) -> Result<()> {
        let top = self.top()?;
        match &mut self.heap[top] {
            Item::List(list) => list.extend(items),
            other => return Err(Error::data(format!("append to {}", other.kind()))),
        }
        Ok(())
    }

    fn set(&mut self, items: &[Id]) -> Result<()> {
        let (pairs, rest) = items.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(Error::data("a key without value"));
        }
        let top = self.top()?;
        match &mut self.heap[top] {
            Item::Dict(dict) => dict.extend(pairs.iter().map(|&[key, value]| (key, value))),
            other => return Err(Error::data(format!("set a key of {}", other.kind()))),
        }
        Ok(())
    }

    fn put(&mut self, key: u32) -> Result<()> {
        self.memo.insert(key, self.top()?);
        Ok(())
    }

    fn get(&mut self, key: u32) -> Result<()> {
        let id = self.memo.get(&key).copied();
        let id = id.ok_or_else(|| Error::data(format!("value {key} is not kept")))?;
        // A reference takes a byte of the file and a word here.
        self.stack.push(id);
        Ok(())
    }

    /// What a call with arguments makes.
    fn call(&mut self) -> Result<()> {
        let (arguments, callee) = (self.pop()?, self.pop()?);
        let (Item::Global(global), Item::Tuple(items)) =
            (&self.heap[callee], &self.heap[arguments])
        else {
            return Err(Error::data("a call of what is no function"));
        };
        let first = items.first().map(|&id| &self.heap[id]);
        let made = match (global, first) {
            (Global::Reconstruct, Some(Item::Global(Global::NdArray))) => Item::Array(None),
            (Global::DefaultDict, Some(Item::Global(Global::List))) => Item::Dict(Vec::new()),
            (Global::Dtype, Some(Item::Bytes(name))) => {
                let number = Number::by_name(name).ok_or_else(|| {
                    let name: String = name.iter().take(20).map(|&b| char::from(b)).collect();
                    Error::data(format!("an array of type `{}`", name.escape_default()))
                })?;
                Item::Dtype(number)
            }
            _ => return Err(Error::data(format!("a call of {global:?} with other arguments"))),
        };
        self.push(made)
    }

    fn new_object(&mut self) -> Result<()> {
        let (arguments, class) = (self.pop()?, self.pop()?);
        match (&self.heap[class], &self.heap[arguments]) {
            (Item::Global(Global::CsrMatrix), Item::Tuple(items)) if items.is_empty() => {
                self.push(Item::Csr(None))
            }
            (other, _) => Err(Error::data(format!("an object of {}", other.kind()))),
        }
    }

    /// Sets the state of an object.
    fn build(&mut self) -> Result<()> {
        let state = self.pop()?;
        let object = self.top()?;
        let built = match (&self.heap[object], &self.heap[state]) {
            (Item::Csr(_), Item::Dict(_)) => Item::Csr(Some(state)),
            (Item::Array(_), Item::Tuple(items)) => Item::Array(Some(self.stored(items)?)),
            (Item::Dtype(number), Item::Tuple(items)) => {
                let order = items.get(1).map(|&id| &self.heap[id]);
                match order {
                    Some(Item::Bytes(b"<" | b"|")) => Item::Dtype(*number),
                    _ => return Err(Error::data("an array that is not little-endian")),
                }
            }
            (other, _) => return Err(Error::data(format!("a state of {}", other.kind()))),
        };
        self.heap[object] = built;
        Ok(())
    }

    /// The state of an array: version, shape, type, order, bytes.
    fn stored(&self, items: &[Id]) -> Result<Stored<'a>> {
        let broken = |why: &str| Err(Error::data(format!("an array {why}")));
        let [_, shape, number, order, data] = *items else {
            return broken("whose state has not five parts");
        };
        let shape = sizes(&self.heap, shape)?;
        let Item::Dtype(number) = self.heap[number] else { return broken("without type") };
        let Item::Bool(by_columns) = self.heap[order] else { return broken("without order") };
        let Item::Bytes(data) = self.heap[data] else { return broken("without bytes") };
        let bytes = shape.iter().try_fold(number.size(), |bytes, &axis| bytes.checked_mul(axis));
        if bytes != Some(data.len()) {
            return broken(&format!("of shape {shape:?} with {} bytes", data.len()));
        }
        if by_columns && shape.len() > 2 {
            return broken("of more than two axes, stored in Fortran order");
        }
        Ok(Stored { by_columns: by_columns && shape.len() == 2, shape, number, data })
    }
}
