//! Numbers out of the sentences of sidecars: "lr 1e-2, betas .9 .999".

/// The first number that follows one of `names`.
pub fn number_after(text: &str, names: &[&str]) -> Option<f64> {
    numbers_after(text, names).first().copied()
}

/// The numbers right after the first of `names` that has any. Between name and number there may be "of",
/// "to" and the like, but no comma.
pub fn numbers_after(text: &str, names: &[&str]) -> Vec<f64> {
    for clause in text.split([',', ';']).flat_map(|part| part.split(". ")) {
        let words: Vec<&str> = clause
            .split(|c: char| c.is_whitespace() || "=:()*/".contains(c))
            .filter(|word| !word.is_empty() && !["of", "to", "at", "is", "->"].contains(word))
            .collect();
        for place in (0..words.len()).filter(|&i| names.contains(&words[i])) {
            let found: Vec<f64> =
                words[place + 1..].iter().map_while(|word| word.parse().ok()).collect();
            if !found.is_empty() {
                return found;
            }
        }
    }
    Vec::new()
}

#[test]
fn numbers_are_found_by_their_names() {
    let text =
        "torch AdamW lr 1e-2, betas .9 .999, decoupled decay 1e-5, clipped to total L2 norm 1.0";
    assert_eq!(number_after(text, &["lr"]), Some(1e-2));
    assert_eq!(numbers_after(text, &["betas"]), [0.9, 0.999]);
    assert_eq!(number_after(text, &["decay", "term"]), Some(1e-5));
    assert_eq!(number_after(text, &["norm"]), Some(1.0));
    assert_eq!(number_after("torch Adam without decay", &["decay"]), None);
    assert_eq!(number_after("without decay, lr 1", &["decay"]), None);
    assert_eq!(numbers_after("linear 1e-6 -> 1e-3 over 20 steps", &["linear"]), [1e-6, 1e-3]);
}
