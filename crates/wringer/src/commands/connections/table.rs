// SPDX-License-Identifier: Apache-2.0
//! Columns of text.

/// Aligns the first column to the left and the others to the right; the last column is not padded. Two blanks are between columns.
pub fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let last = head.len() - 1;
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &[&str]| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            column if column == last => format!("  {cell}"),
            _ => format!("  {cell:>width$}"),
        });
        format!("{}\n", cells.collect::<String>().trim_end())
    };
    let rows = rows.iter().map(|row| line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    std::iter::once(line(head)).chain(rows).collect()
}

pub fn number(value: Option<u64>, none: &str) -> String {
    value.map_or_else(|| none.to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let rows = [vec!["app@%".into(), "12".into(), "x".into()], vec!["b".into(), "3".into(), String::new()]];
        assert_eq!(table(&["account", "n", ""], &rows), "account   n\napp@%    12  x\nb         3\n");
        assert_eq!(number(None, "none"), "none");
    }
}
