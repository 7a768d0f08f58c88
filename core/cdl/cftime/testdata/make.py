"""Print the table for units_test.go: random numbers and their dates according to cftime.

    python make.py > dates.tsv

Each line has calendar, units, number and date. Years are astronomical.
"""
import random

import cftime

random.seed(7)
calendars = ["standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"]
units = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1, "milliseconds": 1e-3, "microseconds": 1e-6}
print("# cftime", cftime.__version__)
for calendar in calendars:
    for i in range(400):
        year = random.choice([1, 4, 100, 1500, 1582, 1583, 1600, 1899, 1900, 1970, 2000, 2023, 2100, 9999, -4, -4712, 0])
        month, day = random.randint(1, 12), random.randint(1, 28)
        if (year, month) == (1582, 10):
            day = random.choice([1, 4, 15, 28])
        zone = random.choice(["", "", "", "Z", " UTC", " +05:30", " -01:00"])
        base = f"{year:05d}-{month:02d}-{day:02d}" if year < 0 else f"{year:04d}-{month:02d}-{day:02d}"
        base += random.choice([" ", "T"]) + f"{random.randint(0, 23):02d}:{random.randint(0, 59):02d}:{random.randint(0, 59):02d}" + zone
        unit, size = random.choice(list(units.items()))
        span = random.choice([10, 400 * 86400, 300 * 366 * 86400, 2500 * 366 * 86400]) if size >= 1 else 86400 * 40000 * size
        number = int(random.uniform(-span, span) / size)
        if size >= 60 and random.random() < 0.5:
            number += random.choice([0.5, 0.25, 0.1, 1 / 3, 0.001])
        text = f"{unit} since {base}"
        when = cftime.num2date(number, text, calendar=calendar, has_year_zero=True)
        date = f"{when.year:04d}" if when.year >= 0 else f"-{-when.year:04d}"
        date += f"-{when.month:02d}-{when.day:02d}T{when.hour:02d}:{when.minute:02d}:{when.second:02d}.{when.microsecond:06d}"
        print(calendar, text, repr(number), date, sep="\t")
