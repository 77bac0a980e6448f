//! Speaks SQL to a server under test.

use postgres::Url;
use tokio_postgres::{Error, NoTls, SimpleQueryMessage};

/// The first column of the rows of the last statement.
pub(crate) fn ask(url: &Url, statements: &str) -> Result<Vec<String>, Error> {
    ask_at(url.as_str(), statements)
}

pub(crate) fn ask_at(url: &str, statements: &str) -> Result<Vec<String>, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let connection = tokio::spawn(connection);
        let answer = client.simple_query(statements).await;
        drop(client);
        let _ = connection.await;
        let rows = answer?.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or("null").to_owned()),
            _ => None,
        });
        Ok(rows.collect())
    })
}
