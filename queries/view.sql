-- The table of the 43 queries, over the files: their dates are numbers of days.
CREATE VIEW hits AS
SELECT * EXCEPT ("EventDate"), CAST(CAST("EventDate" AS INTEGER) AS DATE) AS "EventDate"
FROM hits_raw;
