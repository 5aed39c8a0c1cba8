// SPDX-License-Identifier: Apache-2.0
//! Runs one statement: `cargo run -p load --example admin -- DSN 'SELECT version()'`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(dsn), Some(sql)) = (arguments.next(), arguments.next()) else { return Err("DSN and SQL, please".into()) };
    let mut connection = load::admin::Connection::open(&dsn.parse()?)?;
    let rows = connection.query(&sql)?;
    let mut text = format!("{} | {:?}\n", connection.server_version(), rows.columns);
    for row in 0..rows.len() {
        let values: Vec<_> = (0..rows.columns.len()).map(|column| rows.text(row, column)).collect();
        text += &format!("{values:?}\n");
    }
    std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes())?;
    Ok(())
}
