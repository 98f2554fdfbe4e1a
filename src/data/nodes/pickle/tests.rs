//! Pickles made by hand, whole and damaged.

use super::*;
use crate::rng::Seed;

fn global(name: &str) -> Vec<u8> {
    let (module, name) = name.split_once(' ').unwrap();
    format!("c{module}\n{name}\n").into_bytes()
}

fn int(number: usize) -> Vec<u8> {
    [b"J", &(number as i32).to_le_bytes()[..]].concat()
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [b"T", &(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

/// The opcodes of an array, without beginning and end.
fn array(kind: &str, shape: &[usize], data: &[u8]) -> Vec<u8> {
    let shape: Vec<u8> = shape.iter().flat_map(|&axis| int(axis)).collect();
    [
        &global("numpy.core.multiarray _reconstruct")[..],
        &global("numpy ndarray"),
        b"K\0\x85U\x01b\x87R(K\x01(",
        &shape,
        b"t",
        &global("numpy dtype"),
        &[b"U", &[kind.len() as u8][..], kind.as_bytes()].concat(),
        b"K\0K\x01\x87R(K\x03U\x01<NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89",
        &string(data),
        b"tb",
    ]
    .concat()
}

fn whole(inner: &[u8]) -> Vec<u8> {
    [b"\x80\x02", inner, b"."].concat()
}

fn bytes_of(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// A pickle of an array of whole numbers.
pub(in crate::data::nodes) fn ints(shape: &[usize], numbers: &[i32]) -> Vec<u8> {
    whole(&array("i4", shape, &bytes_of(numbers)))
}

/// A pickle of a matrix in compressed rows.
pub(in crate::data::nodes) fn csr(
    shape: [usize; 2],
    offsets: &[i32],
    columns: &[i32],
    values: &[f32],
) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let field = |name: &str, value: &[u8]| [&string(name.as_bytes()), value].concat();
    whole(
        &[
            &global("scipy.sparse.csr csr_matrix")[..],
            b")\x81}(",
            &field("_shape", &[&int(shape[0])[..], &int(shape[1]), b"\x86"].concat()),
            &field("indptr", &array("i4", &[offsets.len()], &bytes_of(offsets))),
            &field("indices", &array("i4", &[columns.len()], &bytes_of(columns))),
            &field("data", &array("f4", &[values.len()], &data)),
            b"ub",
        ]
        .concat(),
    )
}

/// A pickle of a dictionary of lists.
pub(in crate::data::nodes) fn lists(lists: &[(usize, &[usize])]) -> Vec<u8> {
    let mut inner = global("collections defaultdict");
    inner.extend(global("__builtin__ list"));
    inner.extend(b"\x85Rq\x01(");
    for (node, list) in lists {
        inner.extend(int(*node));
        inner.extend(b"](");
        list.iter().for_each(|&target| inner.extend(int(target)));
        inner.push(b'e');
    }
    inner.push(b'u');
    whole(&inner)
}

fn read(bytes: &[u8]) -> Result<Pickle<'_>> {
    Pickle::read(bytes, MemoryLimit(64 << 20))
}

#[test]
fn arrays_matrices_and_dictionaries_are_read() {
    let limit = MemoryLimit::NONE;
    let bytes = ints(&[2, 3], &[1, 0, 0, 0, -1, 7]);
    let array = read(&bytes).unwrap().array(limit).unwrap();
    assert_eq!(array.shape, [2, 3]);
    assert_eq!(array.values, Values::Int(vec![1, 0, 0, 0, -1, 7]));
    let bytes = csr([2, 4], &[0, 2, 3], &[0, 3, 1], &[1.0, 0.5, 2.0]);
    let sparse = read(&bytes).unwrap().sparse(limit).unwrap();
    assert_eq!((sparse.rows(), sparse.width()), (2, 4));
    assert_eq!(sparse.row(1), (&[1][..], &[2.0][..]));
    let bytes = lists(&[(1, &[0, 2]), (0, &[]), (2, &[1])]);
    let edges = read(&bytes).unwrap().neighbour_lists(3, limit).unwrap();
    assert_eq!((edges.sources, edges.targets), (vec![1, 1, 2], vec![0, 2, 1]));
}

#[test]
fn whatever_else_is_refused_with_its_name_and_place() {
    let explain = |bytes: &[u8]| format!("{:#}", read(bytes).err().unwrap());
    let error = explain(b"\x80\x02cos\nsystem\nU\x04true\x85R.");
    assert!(error.contains("byte 2: it names `os.system`"), "{error}");
    assert!(explain(b"\x80\x02K\x010.").contains("byte 4: opcode POP"));
    assert!(explain(b"\x80\x02\xfe").contains("byte 2: 0xfe is no opcode"));
    assert!(explain(b"\x80\x04.").contains("protocol 4"));
    assert!(explain(b"\x80\x02(K\x01").contains("byte 5: the file is cut off"));
    assert!(explain(b"\x80\x02T\xff\xff\xff\xff").contains("cut off"));
    assert!(explain(b"\x80\x02K\x01(.").contains("a value is missing"));
    // `list` may stand in a defaultdict, but is not called.
    assert!(explain(b"\x80\x02c__builtin__\nlist\n)R.").contains("a call of List"));
    let short = ints(&[2, 3], &[1, 2, 3]);
    assert!(explain(&short).contains("of shape [2, 3] with 12 bytes"));
    let huge = ints(&[usize::MAX >> 34, 1 << 30, 1 << 30], &[1]);
    assert!(explain(&huge).contains("an array of shape"));
}

#[test]
fn shared_lists_do_not_multiply() {
    // 200 nodes share one list of 200 neighbours.
    let mut bytes = b"\x80\x02}(K\0](".to_vec();
    (0..200).for_each(|_| bytes.extend(b"K\x01"));
    bytes.extend(b"eq\x07");
    (1..200u8).for_each(|node| bytes.extend([b'K', node, b'h', 7]));
    bytes.extend(b"u.");
    let pickle = read(&bytes).unwrap();
    let edges = pickle.neighbour_lists(200, MemoryLimit::NONE).unwrap();
    assert_eq!(edges.sources.len(), 40_000);
    let error = pickle.neighbour_lists(200, MemoryLimit(100_000)).unwrap_err();
    assert!(error.is_memory(), "{error}");
    let error = Pickle::read(&bytes, MemoryLimit(1000)).err().unwrap();
    assert!(error.is_memory(), "{error}");
}

#[test]
fn two_thousand_damaged_pickles_never_panic() {
    let mut stream = Seed(0).stream("mutate", 0, 0);
    let corpus = [
        ints(&[2, 3], &[1, 0, 0, 0, 1, 0]),
        csr([2, 4], &[0, 2, 3], &[0, 3, 1], &[1.0, 0.5, 2.0]),
        lists(&[(1, &[0, 2]), (0, &[]), (2, &[1])]),
    ];
    for good in corpus {
        let mut accepted = 0;
        for _ in 0..2000 {
            let mut bad = good.clone();
            for _ in 0..=stream.below(3) {
                let at = stream.below(bad.len() as u64) as usize;
                let end = (at + stream.below(12) as usize).min(bad.len());
                match stream.below(5) {
                    0 => bad[at] = stream.next_u64() as u8,
                    1 => bad.truncate(at.max(1)),
                    2 if end - at < bad.len() => drop(bad.drain(at..end)),
                    3 => {
                        let copy = bad[at..end].to_vec();
                        bad.splice(at..at, copy);
                    }
                    // Another opcode, where one is likely.
                    _ => bad.insert(at, b"(.abeghjqrstuKMJUTXc})]\x81\x85\x86\x87R"[at % 27]),
                }
            }
            let limit = MemoryLimit(16 << 20);
            let Ok(pickle) = Pickle::read(&bad, limit) else { continue };
            let made = [
                pickle.array(limit).is_ok(),
                pickle.sparse(limit).is_ok(),
                pickle.neighbour_lists(10, limit).is_ok(),
            ];
            accepted += usize::from(made.contains(&true));
        }
        println!("{accepted} of 2000 damaged pickles are still data");
        assert!(accepted < 1500, "{accepted}");
    }
}
