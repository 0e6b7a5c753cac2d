"""What this broker shows of its inside in its console. Imported when a console is first used."""
