"""The words of synthetic logs: public, small, written for this package, and about nobody.

Every noun here (topics, `ASPECTS`, `ILLNESSES`) is a noun of WordNet 3.0, so that what the knowledge room can do with
a real query it can do with a synthetic one (a test checks it). Names and towns are put together from invented
syllables; sites live under `.example` and mail addresses at `example.org`, which RFC 2606 sets aside for examples.

>>> len(TOPICS), {len(single_words(topic)) for topic in TOPICS}, {len(two_words(topic)) for topic in TOPICS}
(16, {40}, {10})
"""

from __future__ import annotations

_SINGLE: dict[str, str] = {
    "health": """
        doctor hospital vitamin headache fever vaccine pharmacy nurse medicine allergy surgery dentist diet
        pregnancy stress sleep therapy clinic infection muscle bone skin stomach kidney liver heart lung cough
        injury symptom bandage aspirin antibiotic virus surgeon ambulance insomnia obesity exercise cholesterol""",
    "travel": """
        hotel flight beach cruise passport airport map island museum resort luggage train ticket vacation tour
        guide hostel visa ferry lighthouse harbor castle waterfall canyon volcano campsite motel itinerary
        souvenir suitcase airline tourist border monument lagoon desert peninsula lodge safari pier""",
    "sport": """
        football baseball basketball tennis golf soccer hockey swimming boxing wrestling cycling marathon
        stadium coach league team score racket referee tournament gymnastics skiing volleyball rugby cricket
        archery fencing surfing skating bowling rowing sprinter goalkeeper quarterback pitcher championship
        medal dumbbell karate judo""",
    "cooking": """
        recipe chicken soup bread cheese salad cake chocolate pasta pizza sauce butter sugar rice potato tomato
        onion garlic pepper cookie pie steak salmon shrimp egg bean noodle pancake oven skillet vinegar cinnamon
        honey casserole barbecue lasagna dessert breakfast sandwich omelet""",
    "money": """
        bank loan mortgage credit tax insurance stock bond budget salary pension interest dividend invoice debt
        lottery currency dollar savings investor broker wallet coupon auction price receipt bankruptcy inflation
        audit annuity refund lender landlord rent deposit check account profit accountant inheritance""",
    "science": """
        planet star galaxy telescope atom molecule gravity evolution fossil dinosaur laser magnet energy
        electron enzyme protein gene bacteria chemistry physics biology geology astronomy comet asteroid eclipse
        microscope oxygen carbon hydrogen crystal mineral glacier earthquake experiment theory equation
        satellite radiation neutron""",
    "music": """
        guitar piano violin drum song album concert lyric opera orchestra choir jazz blues hymn melody rhythm
        trumpet flute saxophone cello banjo harmonica accordion clarinet band singer composer symphony ballad
        chord microphone amplifier radio record harp trombone ukulele waltz anthem conductor""",
    "animals": """
        dog cat horse rabbit parrot hamster turtle snake lizard goldfish puppy kitten pony cow pig goat sheep
        turkey eagle owl wolf bear fox deer squirrel whale dolphin shark penguin elephant tiger lion giraffe
        monkey spider butterfly bee frog kennel veterinarian""",
    "garden": """
        rose tulip orchid lawn fence compost seed bulb shrub tree oak maple pine fern cactus ivy lily daisy
        sunflower violet greenhouse mower rake shovel sprinkler fertilizer weed hedge trellis patio pond gazebo
        herb basil lavender pumpkin strawberry cucumber vineyard orchard""",
    "house": """
        kitchen bathroom bedroom roof carpet curtain sofa mattress lamp furnace plumber faucet paint wallpaper
        cabinet door window chimney basement attic garage closet mirror pillow blanket quilt refrigerator
        dishwasher vacuum ladder hammer drill tile insulation thermostat hardwood fireplace bookcase shelf
        apartment""",
    "vehicles": """
        car truck motorcycle bicycle bus van tire engine brake battery clutch transmission muffler radiator
        gasoline diesel trailer boat canoe kayak yacht airplane helicopter scooter tractor convertible sedan
        limousine locomotive windshield bumper headlight carburetor mechanic dealership highway tow jeep minivan
        pickup""",
    "clothing": """
        dress shoe boot jacket coat hat scarf glove sweater trouser skirt shirt blouse necktie belt sandal sock
        pajama uniform tuxedo gown veil necklace bracelet earring ring watch purse handbag perfume lipstick
        cosmetic haircut wig tattoo costume silk leather denim lace""",
    "computing": """
        computer laptop printer keyboard monitor software tablet password browser internet modem router scanner
        database spreadsheet typewriter processor microprocessor website camera telephone television headphone
        projector calculator cartridge server firewall font icon antenna email blog desktop disk joystick memory
        network program robot""",
    "school": """
        teacher student college university scholarship homework essay dictionary library textbook kindergarten
        grammar algebra geometry calculus spelling history geography poem diploma graduation thesis tutor
        lecture classroom curriculum semester quiz examination encyclopedia alphabet handwriting playground
        crayon notebook pencil professor dormitory sorority fraternity""",
    "government": """
        president senate congress governor mayor election ballot law court judge jury lawyer police prison army
        navy treaty constitution census citizenship immigration license permit embassy ambassador sheriff
        firefighter veteran flag parliament tariff subpoena divorce custody adoption patent copyright trademark
        legislation referendum""",
    "arts": """
        painting sculpture theater movie actor actress novel author poet photograph gallery dance ballet drawing
        pottery quilting origami comedy drama cartoon magazine newspaper puppet circus magician chess crossword
        puzzle poker calligraphy mosaic fresco watercolor embroidery knitting crochet screenplay portrait fairy
        mythology""",
}

_DOUBLE: dict[str, str] = {
    "health": """
        blood pressure, heart attack, physical therapy, blood type, health insurance, immune system, birth
        control, family doctor, nervous breakdown, common cold""",
    "travel": """
        ocean liner, travel agent, national park, youth hostel, round trip, theme park, bus stop, time zone,
        traveler's check, tourist attraction""",
    "sport": """
        tennis racket, golf club, world series, figure skating, swimming pool, ice hockey, batting average,
        martial art, boxing glove, olympic games""",
    "cooking": """
        ice cream, apple pie, olive oil, peanut butter, chocolate cake, potato salad, pot roast, baking powder,
        french fries, sour cream""",
    "money": """
        credit card, savings account, income tax, interest rate, mutual fund, stock market, real estate, life
        insurance, social security, exchange rate""",
    "science": """
        black hole, solar system, periodic table, milky way, solar eclipse, natural selection, food chain,
        greenhouse effect, nuclear reactor, stem cell""",
    "music": """
        electric guitar, grand piano, rock music, country music, brass band, music box, folk song, bass drum,
        classical music, love song""",
    "animals": """
        german shepherd, golden retriever, guinea pig, polar bear, bald eagle, sea turtle, dog food, siamese
        cat, race horse, giant panda""",
    "garden": """
        lawn mower, flower garden, garden hose, fruit tree, rose garden, cherry tree, vegetable garden, crab
        grass, apple tree, watering can""",
    "house": """
        washing machine, air conditioner, water heater, dining table, rocking chair, bunk bed, light bulb, smoke
        alarm, picture frame, coffee maker""",
    "vehicles": """
        sports car, fuel injection, driver's license, spark plug, steering wheel, mountain bike, station wagon,
        seat belt, oil filter, fire truck""",
    "clothing": """
        wedding dress, evening gown, engagement ring, bathing suit, running shoe, contact lens, nail polish,
        wedding ring, baseball cap, cowboy hat""",
    "computing": """
        hard drive, search engine, video game, operating system, computer program, digital camera, web site,
        computer virus, personal computer, optical disk""",
    "school": """
        high school, summer school, report card, nursery school, school bus, community college, field trip,
        graduate school, reading room, spelling bee""",
    "government": """
        supreme court, vice president, death penalty, foreign policy, city hall, jury duty, social worker,
        secret service, cabinet minister, town meeting""",
    "arts": """
        comic book, science fiction, short story, soap opera, oil painting, crossword puzzle, fairy tale, film
        noir, art gallery, stained glass""",
}


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _joined(heads: str, tails: str) -> tuple[str, ...]:
    return tuple(head + tail for head in _words(heads) for tail in _words(tails))


def single_words(topic: str) -> tuple[str, ...]:
    """The one-word nouns of a topic, the most asked first."""
    return _words(_SINGLE[topic])


def two_words(topic: str) -> tuple[str, ...]:
    """The two-word nouns of a topic, the most asked first."""
    return tuple(" ".join(phrase.split()) for phrase in _DOUBLE[topic].split(","))


TOPICS = tuple(_SINGLE)
"""What people are interested in."""

MODIFIERS = _words("""
    free new cheap best used local easy small large old online famous antique modern homemade wild natural red
    blue green white black broken discount professional simple beautiful vintage wooden portable electric custom
    fresh healthy foreign royal german italian mexican japanese""")
"""Adjectives that go before a noun, the most frequent first."""

ASPECTS = _words("""
    picture price history map review store school job sale repair kit club museum catalog schedule rental video
    society collection design show magazine association training service market supply festival expert statistic
    definition manual pattern meaning cost origin quote game symbol factory""")
"""Nouns for what one wants to know about another noun, the most frequent first."""

ILLNESSES = _words("""
    asthma diabetes epilepsy depression leukemia arthritis hepatitis psoriasis alcoholism anorexia bulimia
    dementia eczema glaucoma gout hernia lupus migraine pneumonia schizophrenia tuberculosis infertility anemia
    autism""")
"""Illnesses, for texts that must look sensitive."""

FIRST_NAMES = _words("""
    alvira bendrik corlan delwyne edrisa fennick gorvane hesmira ilvane jorrick kelmira lodwin mirabett nolvane
    orsiva pelwick quenra rosmund selvira torvane ulmira vandrel wystra yorvik zelmira ambrick belvane cresdane
    dorwick elmund farissa gilwyn""")
"""Invented given names."""

LAST_NAMES = _joined(
    "arb bram corv dael ebb fald grin hask ild jarn kest lorm mund narv oxb pell quar rusk selb tarn ulv vost wex yarl",
    "acker andel aster elbarn endorf erling esten ilgard imoor ingrove olan onder orth osk ovar umber",
)
"""Invented family names."""

LAST_NAME_ENDINGS = (
    "",
    *_words("s er son ley ham by mark stad feld haven ridge ton rup quist vik low bek ward sen lund"),
)
"""With these there are some 8,000 invented family names, each of a few people, as most family names are."""

FREQUENT_FIRST_NAMES = _words("""
    james mary robert patricia john jennifer michael linda david elizabeth william barbara richard susan joseph
    jessica thomas sarah christopher karen charles lisa daniel nancy matthew betty anthony sandra mark margaret
    donald ashley steven kimberly andrew emily paul donna joshua michelle kenneth carol kevin amanda brian melissa
    timothy deborah ronald stephanie george rebecca""")
"""Frequent given names of the United States, in lower case and no order that matters."""

FREQUENT_LAST_NAMES = _words("""
    smith johnson williams brown jones garcia miller davis rodriguez martinez hernandez lopez gonzalez wilson
    anderson thomas taylor moore jackson martin lee perez thompson white harris sanchez clark ramirez lewis robinson
    walker young allen king wright scott torres nguyen hill flores green adams nelson baker hall rivera campbell
    mitchell carter roberts gomez phillips evans turner diaz parker cruz edwards collins reyes stewart morris morales
    murphy cook rogers gutierrez ortiz morgan cooper peterson bailey reed kelly howard ramos kim cox ward richardson
    watson brooks chavez wood james bennett gray mendoza ruiz hughes price alvarez castillo sanders patel myers long
    ross foster jimenez""")
"""The hundred most frequent family names of the United States (Census 2010), which 17 % of people have."""

TOWNS = _joined(
    "amber bracken cinder dusk elder fallow gorse heron iron jasper kestrel larch marrow nettle ochre plover quill "
    "raven sedge thistle umber vellum willow yarrow alder birch copper drift ember flint garnet hazel juniper linnet "
    "mallow osier pewter russet saffron teasel",
    "bourne cliffe combe deane fold garth holme mere minster moorland ness port reach stead thwaite wick "
    "barrow croft dale fleet gate haven hythe lade lea marsh pool shaw staithe toft vale weald",
)
"""Invented towns."""
