// SPDX-License-Identifier: Apache-2.0

/// `1 row`, `2 rows`, `2 processes`: a count with its noun, given in the singular; for nouns that take an `s`.
pub fn counted(count: u64, noun: &str) -> String {
    let ending = if noun.ends_with('s') { "es" } else { "s" };
    format!("{count} {noun}{}", if count == 1 { "" } else { ending })
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn one_is_the_singular() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "row")), ["0 rows", "1 row", "2 rows"]);
        assert_eq!(counted(2, "process"), "2 processes");
    }
}
